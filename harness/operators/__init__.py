"""The operators and what they mean: layers as values, how ONNX nodes become them, the exact arithmetic.

A network has one input, a batch of vectors, and layers that may branch and join again.
"""

from harness.operators.layers import (
    Add,
    ArgExtremum,
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
    "Add",
    "ArgExtremum",
    "DequantizeLinear",
    "Layer",
    "Network",
    "Normalisation",
    "QGemm",
    "QuantizeLinear",
    "Scales",
    "accumulator_bounds",
    "columns_of",
]
