"""Ceil (ONNX), float32: the least integer that is not below x[n]."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression, ceiling
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Ceil(Pointwise):
    """y[n] = the least integer that is not below x[n]."""

    ONNX = (("", "Ceil"),)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return ceiling(x)
