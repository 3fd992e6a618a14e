"""Celu (ONNX), float32: max(0, x[n]) + min(0, alpha * (exp(x[n] / alpha) - 1))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression, select
from harness.operators.exact.functions import exponential_minus_one
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Celu(Approximated):
    """y[n] = max(0, x[n]) + min(0, alpha * (exp(x[n] / alpha) - 1))."""

    ONNX = (("", "Celu"),)
    largest_ulp = 4
    largest_difference = 2.0**-23  # 6.0e-8 was measured: ONNX Runtime subtracts 1 from exp(x)
    factors = ("alpha",)
    defaults = {"alpha": 1.0}  # noqa: RUF012

    alpha: np.float32

    @staticmethod
    def value(x: Expression, alpha: Expression) -> Expression:
        """Return the definition."""
        return select(x < 0, alpha * exponential_minus_one(select(x > 0, 0, x) / alpha), x)
