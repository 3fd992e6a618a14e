"""Floor (ONNX), float32: the greatest integer that is not above x[n]."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression, floor
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Floor(Pointwise):
    """y[n] = the greatest integer that is not above x[n]."""

    ONNX = (("", "Floor"),)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return floor(x)
