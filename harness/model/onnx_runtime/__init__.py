"""ONNX Runtime as import and reference use it: its sessions, and whether they are exact on this machine."""
