"""Sqrt (ONNX), float32: the square root of x[n], which is not negative."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression, square_root
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Sqrt(Pointwise):
    """y[n] = sqrt(x[n]), rounded once."""

    ONNX = (("", "Sqrt"),)
    interval = (0.0, 10.0)
    least = 0.0

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return square_root(x)
