"""Files to and from `Network`: ONNX is read, imported, quantised, described as text; ONNX Runtime, checked.

A model that cannot be reproduced bit for bit is refused, with the node's name and the accepted alternatives.
"""

from harness.model.graph import NEWEST_IR_VERSION, OLDEST_OPSET, load, parse
from harness.operators.node import NEWEST_OPSET

__all__ = ["NEWEST_IR_VERSION", "NEWEST_OPSET", "OLDEST_OPSET", "load", "parse"]
