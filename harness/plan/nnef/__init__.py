"""Text of a network and of its items, and back: NNEF 1.0, and its extension by items."""
