"""Abs (ONNX), float32: |x[n]|."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Abs(Pointwise):
    """y[n] = |x[n]|."""

    ONNX = (("", "Abs"),)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return abs(x)
