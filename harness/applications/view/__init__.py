"""`harness models view`: the graph of a network as a page, with its facts and the evidence of runs."""
