"""Round (ONNX), float32: the nearest integer, the even one of two."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression, round_half_even
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Round(Pointwise):
    """y[n] = the nearest integer, the even one of two."""

    ONNX = (("", "Round"),)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return round_half_even(x)
