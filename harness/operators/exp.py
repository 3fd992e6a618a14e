"""Exp (ONNX), float32: exp(x[n])."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression, nearest
from harness.operators.exact.functions import exponential
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Exp(Approximated):
    """y[n] = exp(x[n]); it can be infinite, and 0."""

    ONNX = (("", "Exp"),)
    least_output = 0.0
    largest_ulp = 2  # 1 was measured
    interval = (-105.0, 89.0)
    places = (-104.5, -103.9721, -87.33655, -0.3465736, 0.3465736, 88.72284, 104.5)
    alternatives = {  # noqa: RUF012
        "the base is 2": lambda x: nearest(np.exp2, x),
        "1 is subtracted": lambda x: nearest(np.expm1, x),
        "it is the square of exp(x / 2)": lambda x: exponential(x * 0.5) * exponential(x * 0.5),
    }

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return exponential(x)
