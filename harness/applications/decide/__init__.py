"""`harness decide`: whether a network has a property for every input, box by box."""
