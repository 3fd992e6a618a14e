"""Sign (ONNX), float32 or integers: -1, 0 or 1."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.base import Layer
from harness.operators.exact.expression import Expression, equal, select
from harness.operators.integer_elements import IntegerElements, reads_integers
from harness.operators.node import Node
from harness.operators.pointwise import Pointwise
from harness.operators.tensor import FLOAT32


@dataclass(frozen=True, eq=False)
class Sign(Pointwise):
    """y[n] = -1, 0 or 1."""

    ONNX = (("", "Sign"),)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node of float32 values or of integers."""
        return IntegerElements.read(node) if reads_integers(node) else super().read(node)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        if x.dtype == FLOAT32:
            return select(x > 0, 1, select(x < 0, -1, select(equal(x, 0), 0, x)))
        return select(x > 0, 1, x if x.dtype.kind == "u" else select(x < 0, -1, x))
