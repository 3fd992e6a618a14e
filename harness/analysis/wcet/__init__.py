"""Bounds of what a deployed program executes for one vector, read from its machine code.

graph       the control-flow graph of a function
values      numbers, linear forms of loop counters, unknown data
state       registers and memory of an abstract execution
aarch64     the instructions of a processor, as steps of an abstract execution
execution   abstract execution: how often each edge of the graphs is taken at most
footprint   the memory that a layer accesses, compared with the plan
paths       implicit path enumeration: the costliest path
bounds      the bounds of all layers of a program: `of_program`
cycles      an estimate in cycles of a core model (llvm-mca)
flow_facts  flow facts for other tools: OTAWA and aiT
"""

from harness.analysis.wcet.bounds import Bounds, LayerBound, of_program

__all__ = ["Bounds", "LayerBound", "of_program"]
