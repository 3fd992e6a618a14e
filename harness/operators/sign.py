"""Sign (ONNX), float32: -1, 0 or 1."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression, equal, select
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Sign(Pointwise):
    """y[n] = -1, 0 or 1."""

    ONNX = (("", "Sign"),)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return select(x > 0, 1, select(x < 0, -1, select(equal(x, 0), 0, x)))
