"""Items as a formal object: the text of a network split over items, and its equivalence to the network."""
