"""`harness profile`: times of every node of a network, totals per operator, and the distance from the roofline."""
