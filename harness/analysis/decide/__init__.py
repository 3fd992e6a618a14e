"""Complete decision of a property over the operational design domain.

The input of a quantised network is a vector of 8-bit codes, so that its domain is finite.  `decide` gives every code
vector to the network and collects the decisions in regions: products of runs of codes that lie in the same intervals.

code_network  a network as steps from codes to codes
partition     boxes: intervals of every input, their codes, and the regions that these form
property      a property as text: which decisions are allowed in each box
vnnlib        half-spaces of outputs, from a VNN-LIB file
bounds        sound bounds of the decisions in a box, for networks with too many code vectors
engine        the program in C that decides boxes of codes (kernels/decide)
"""
