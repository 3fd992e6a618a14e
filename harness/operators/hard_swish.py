"""HardSwish (ONNX), float32: x[n] * max(0, min(1, float32(1 / 6) * x[n] + 0.5))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression
from harness.operators.exact.functions import clamped
from harness.operators.hard_sigmoid import hard_sigmoid
from harness.operators.pointwise import Pointwise

ALPHA, BETA = np.float32(1 / 6), np.float32(0.5)


@dataclass(frozen=True, eq=False)
class HardSwish(Pointwise):
    """y[n] = x[n] * max(0, min(1, x[n] * float32(1 / 6) + 0.5)); ONNX Runtime 1.31 gives the same bits for all inputs.

    A division by 6 gives other bits.
    """

    ONNX = (("", "HardSwish"),)
    places = (-3.0, 3.0)
    alternatives = {  # noqa: RUF012
        "it is (x * min(max(x + 3, 0), 6)) / 6": lambda x: (x * clamped(x + 3, 0.0, 6.0)) / 6,
        "-0 becomes 0": lambda x: x * hard_sigmoid(x, ALPHA, BETA) + 0,
    }

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return x * hard_sigmoid(x, ALPHA, BETA)
