"""`harness trace`: each ONNX node, its code and constants in a program file, and the node of each byte of the file."""
