"""Items as a formal object: what text says of a network split over items, and whether that is the network."""
