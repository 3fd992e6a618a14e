"""Reciprocal (ONNX), float32: 1 / x[n]; infinite for 0."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Reciprocal(Pointwise):
    """y[n] = 1 / x[n]; infinite for 0."""

    ONNX = (("", "Reciprocal"),)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return 1 / x
