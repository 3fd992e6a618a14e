"""Files to and from `Network`: ONNX is read, imported, quantised, described as text; ONNX Runtime, checked.

Whatever cannot be reproduced bit for bit is refused here, with the node's name and what would be accepted.
"""

from harness.model.graph import NEWEST_IR_VERSION, NEWEST_OPSET, OLDEST_OPSET, load, parse

__all__ = ["NEWEST_IR_VERSION", "NEWEST_OPSET", "OLDEST_OPSET", "load", "parse"]
