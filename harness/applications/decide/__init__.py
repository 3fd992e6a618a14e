"""`harness decide`: a property of a quantised network, decided for every input of its domain.

The input of a quantised network is a vector of 8-bit codes, so that its domain is finite.  `decide` gives every code
vector to the network and collects the decisions in regions: products of runs of codes that lie in the same intervals.

code_network  a network as steps from codes to codes
partition     boxes: intervals of every input, their codes, and the regions that these form
property      a property as text: which decisions are allowed in each box
vnnlib        half-spaces of outputs, from a VNN-LIB file
bounds        sound bounds of the decisions in a box, for networks with too many code vectors
engine, gpu   the programs that decide boxes of codes (kernels/decide); dense: the same in numpy
entries       the documents: the request, and `decide.json` with the certificate of each slab
slabs         slabs of the domain as tasks for a pool of processes or machines (cluster)
job           a decision: its folder, resumption, the document
bounded       a decision by bounds: batches of boxes, samples, the document
again         random slabs and boxes, decided again with other engines
certificate   the document with the decisions of all boxes, without slabs
check         the verification of a finished decision; check_bounds: of one by bounds
evidence      both as a kind of evidence
hybrid        `harness models hybrid`: a decided network with its checks, its safety net and the selection
"""
