"""Sums of float32 products in MLIR: from the bias on, in the order of the formula, each operation rounded."""

from __future__ import annotations

import numpy as np

from harness.operators.float_contraction import FloatContraction
from harness.targets.iree.builder import Block, Function, Scalar, Value


def bias_of(layer: FloatContraction, function: Function) -> Value:
    """Return the bias (N,); -0 counts as 0."""
    return function.constant("bias", layer.bias + np.float32(0))


def multiply_add(block: Block, a: Scalar, weight: Scalar, acc: Scalar) -> Scalar:
    """Add a product and a sum, which are rounded one after the other."""
    return block("arith.addf", acc, block.product(a, weight), name="sum")
