"""Softsign (ONNX), float32: x[n] / (1 + |x[n]|)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Softsign(Approximated):
    """y[n] = x[n] / (1 + |x[n]|)."""

    ONNX = (("", "Softsign"),)
    largest_ulp = 3  # 2 was measured

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return x / (1 + abs(x))
