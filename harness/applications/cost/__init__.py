"""The costs of a network, layer by layer, before it runs."""
