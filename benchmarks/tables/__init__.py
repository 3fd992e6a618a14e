"""Tables of a paper with the numbers of this installation beside its own.

sizes     bytes of a program by kind of section
builds    one network in one form of code on one board: sizes, checked outputs, times or counted instructions
document  tables of cells, each with a source or with the reason why it is empty
acetone   the tables of De Albuquerque Silva et al., ACETONE, ECRTS 2022
tflite    the tables of a thesis on a converter from ONNX to TFLite
forms     tables as text, CSV, LaTeX, Markdown and a page
peers     times of other tools, from the document of benchmarks/run_peers.py
"""
