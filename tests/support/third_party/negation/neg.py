"""Neg (ONNX), float32: y[n] = -x[n], which changes the sign bit and rounds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from harness.operators.base import Evaluate, Layer, fields
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "neg_float32",
    900,
    """\
# ONNX Neg: the sign is changed.
fragment neg_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = -x;
}
""",
)


@dataclass(frozen=True, eq=False)
class Neg(Layer):
    """y[n] = -x[n]."""

    ONNX = (("", "Neg"),)
    formula = "y[n] = -x[n]"
    roles = ("x",)
    fragments = (FRAGMENT,)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of float32 values."""
        node.require_inputs(1, 1)
        node.attributes({})
        source = node.activation(0, [FLOAT32])
        return cls(**fields(node, [source], source.shape, FLOAT32, source.bound, negative_zero=True))

    def prepare(self) -> Evaluate:
        """Return the function that changes the sign."""
        return lambda x: -x
