"""`harness wcet`: bounds of what a deployed program executes for one vector, read from its machine code.

graph       the control-flow graph of a function
values      numbers, linear forms of loop counters, unknown data
state       registers and memory of an abstract execution
processors  the processors: their instructions as steps, for example aarch64
execution   abstract execution: how often each edge of the graphs is taken at most
footprint   the memory that a layer accesses, compared with the plan
paths       implicit path enumeration: the costliest path
stack       the stack of the threads of items
bounds      the bounds of all layers of a program: `of_program`
cycles      an estimate in cycles of a core model (llvm-mca)
flow_facts  flow facts for other tools: OTAWA and aiT
document    the documents of the evidence
job         the bounds of a program as a folder of evidence
evidence    the claims of such a folder, checked again
"""
