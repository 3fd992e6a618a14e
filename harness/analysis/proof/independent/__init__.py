"""A reader of ONNX files that shares nothing with the generators: what the proof expects of the constants of a program.

`file.py` reads the graph.  Each other file has `READERS` of a family of operators: functions from a node of the file to
its constants, written from the specification of ONNX or of ONNX Runtime.
"""
