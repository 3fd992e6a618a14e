"""Import of a network from a file of another tool: read, checked against the file itself, or refused.

A float network (.onnx, .nnet) becomes dense layers, equal to the file within a bound; a quantised one (.onnx) becomes
the canonical form that `harness.model.parse` accepts, equal to the file bit for bit.  A TFLite file becomes ONNX nodes,
whose values are compared with LiteRT's.
"""

from harness.model.importer.changes import Changes
from harness.model.importer.check import Agreement, Identity
from harness.model.importer.files import FloatImport, NetworkImport, TfliteImport, bring_in, float_graph, read

__all__ = [
    "Agreement",
    "Changes",
    "FloatImport",
    "Identity",
    "NetworkImport",
    "TfliteImport",
    "bring_in",
    "float_graph",
    "read",
]
