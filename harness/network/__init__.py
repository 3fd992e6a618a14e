"""ONNX -> `Network`: the typed layer list with its exact constants.

A network has one input, a batch of vectors, and layers that may branch and join again.  Whatever cannot be reproduced
bit for bit is refused here, with the node's name and what would be accepted; later rooms trust what they are given.
"""

from harness.network.graph import NEWEST_IR_VERSION, NEWEST_OPSET, OLDEST_OPSET, load, parse
from harness.network.layers import (
    Add,
    ArgExtremum,
    Array,
    DequantizeLinear,
    Layer,
    Network,
    Normalisation,
    QGemm,
    QuantizeLinear,
    Scales,
    accumulator_bounds,
    columns_of,
)

__all__ = [
    "NEWEST_IR_VERSION",
    "NEWEST_OPSET",
    "OLDEST_OPSET",
    "Add",
    "ArgExtremum",
    "Array",
    "DequantizeLinear",
    "Layer",
    "Network",
    "Normalisation",
    "QGemm",
    "QuantizeLinear",
    "Scales",
    "accumulator_bounds",
    "columns_of",
    "load",
    "parse",
]
