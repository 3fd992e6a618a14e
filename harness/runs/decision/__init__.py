"""The complete decision of a property, from the request to evidence that can be verified.

entries  the documents: the request, and `decide.json` with the certificate of each slab
slabs    slabs of the domain as tasks for a pool of processes or machines
job      a decision: its folder, resumption, the document
bounded  a decision by bounds: batches of boxes, samples, the document
again    random slabs and boxes, decided again with other engines
certificate  the document with the decisions of all boxes, without slabs
check    the verification of a finished decision; check_bounds: of one by bounds
"""
