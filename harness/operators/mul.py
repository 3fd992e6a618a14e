"""Mul (ONNX), float32: the product of two activations, or of an activation and a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.operators.base import Layer
from harness.operators.div import Div
from harness.operators.exact.expression import Expression
from harness.operators.node import Node
from harness.operators.terms import BinaryLayer


@dataclass(frozen=True, eq=False)
class Mul(BinaryLayer):
    """y[n] = A[n] * B[n]; the constant `factor` takes the place of B, also where it is the first input.

    A product that overflows is infinite.  An infinity times 0 gives a NaN, which has no specified bits: the reference
    fails for such an input.
    """

    ONNX = (("", "Mul"),)
    verb = "multiplies"
    orders = (74, 77)
    constant_roles = ("factor",)

    factor: npt.NDArray[np.float32] | None

    @staticmethod
    def value(a: Expression, b: Expression) -> Expression:
        """Return the definition."""
        return a * b

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Refuse a product with 1 / b: ONNX Runtime 1.31 divides by b instead, which rounds once."""
        for other in map(node.writer, node.inputs):
            if isinstance(other, Div) and other.dividend is not None and (other.dividend == 1).all():
                raise node.refusal(
                    f"multiplies by {other.node!r}, 1 / b: ONNX Runtime would divide by b, with one rounding",
                    "a Div by b",
                )
        return super().read(node)
