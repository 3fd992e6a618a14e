"""Relu (ONNX), float32 or int8 codes, which are compared as they are: their zero point plays no part.

y[n] = 0 if x[n] < 0, else x[n]            -0 stays -0 (ONNX Runtime 1.31)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Comparison, Evaluate, fields
from harness.operators.exact import from_ordered, ordered
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, INT8
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "relu_float32",
    70,
    """\
# ONNX Relu: a comparison, which rounds nothing; -0.0 stays.
fragment relu_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = select(x < 0.0, 0.0, x);
}
""",
)
CODES = Fragment(
    "relu_codes",
    68,
    """\
# ONNX Relu of int8 codes: a comparison.
fragment relu_codes(
    x: tensor<scalar>,                      # codes (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = select(x < 0.0, 0.0, x);
}
""",
)


@dataclass(frozen=True, eq=False)
class Relu(Comparison):
    """y[n] = 0 if x[n] < 0, else x[n]."""

    ONNX = (("", "Relu"),)
    formula = "y[n] = 0 if x[n] < 0, else x[n], so that -0 stays -0"
    roles = ("x",)
    fragments = (FRAGMENT, CODES)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of float32 values or codes of any shape; ONNX has no Relu of uint8."""
        node.require_inputs(1, 1)
        node.attributes({})
        source = node.activation(0, [FLOAT32, INT8])
        written = fields(node, [source], source.shape, source.dtype, source.bound, negative_zero=source.negative_zero)
        return cls(**written)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong comparisons and signs of zero."""
        [x] = inputs
        right, kept = "0 below 0, else x", "-0 stays -0"
        if self.of_codes:
            yield FaultModel("negative codes are kept", right, x)
            yield FaultModel("negative codes become the lowest", right, np.where(x < 0, np.int8(-128), x))
            yield FaultModel("positive codes become 0", right, np.minimum(x, 0))
            return
        yield FaultModel("negative numbers are kept", right, x)
        yield FaultModel("the absolute value is taken", right, np.abs(x))
        yield FaultModel("positive numbers become 0", right, np.where(ordered(x) > 0, np.float32(0), x))
        yield FaultModel("-0 becomes 0", kept, np.where(ordered(x) <= 0, np.float32(0), x))
        yield FaultModel("negative numbers become -0", right, np.where(ordered(x) < 0, np.float32(-0.0), x))

    def prepare(self) -> Evaluate:
        """Return the comparison; -0 and NaN stay."""
        if self.of_codes:
            return lambda x: np.maximum(x, 0)
        return lambda x: np.where(x < 0, np.float32(0), x)

    def boundaries(self) -> tuple[Array, Array]:
        """Return 0 and the adjacent numbers; nothing is rounded."""
        return from_ordered(np.arange(-1, 2)), np.empty(0, np.float32)
