"""Neg (ONNX), float32 or integers: -x[n]."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.base import Layer
from harness.operators.exact.expression import Expression
from harness.operators.half_elements import HalfElements
from harness.operators.integer_elements import IntegerElements, reads_integers
from harness.operators.node import Node
from harness.operators.pointwise import Pointwise
from harness.operators.tensor import FLOAT16


@dataclass(frozen=True, eq=False)
class Neg(Pointwise):
    """y[n] = -x[n]."""

    ONNX = (("", "Neg"),)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node of float32 or float16 values or of integers."""
        if reads_integers(node, [FLOAT16]):
            return HalfElements.read(node)
        return IntegerElements.read(node) if reads_integers(node) else super().read(node)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return -x
