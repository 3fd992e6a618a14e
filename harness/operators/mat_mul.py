"""MatMul (ONNX), float32, with constant weights (K, N): Gemm without bias.

acc  = 0
acc  = acc + A[k] * B[k, n]                            for k = 0 to K - 1: the product is rounded, then the sum
y[n] = acc
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.operators.gemm import Gemm, read_matrix
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32


@dataclass(frozen=True, eq=False)
class MatMul(Gemm):
    """The dense sum without bias."""

    ONNX = (("", "MatMul"),)
    formula = """\
acc = 0
acc = acc + A[k] * B[k, n]                               for k = 0 to K - 1, each operation rounded to float32
y[n] = acc"""
    roles = ("A", "B")
    parameters = (1,)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose second input is a constant matrix."""
        node.require_inputs(2, 2)
        node.attributes({})
        source = node.vector(0, [FLOAT32])
        weights = read_matrix(node, source)
        return cls.of(node, source, weights, np.zeros(weights.shape[1], np.float32))
