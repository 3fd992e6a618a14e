"""Selu (ONNX), float32: gamma * x[n] above 0, else gamma * (alpha * (exp(x[n]) - 1))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression, select
from harness.operators.exact.functions import exponential_minus_one
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Selu(Approximated):
    """y[n] = gamma * x[n] above 0, else gamma * (alpha * (exp(x[n]) - 1))."""

    ONNX = (("", "Selu"),)
    largest_ulp = 4
    largest_difference = 2.0**-22  # 1.4e-7 was measured: ONNX Runtime subtracts 1 from exp(x)
    factors = ("alpha", "gamma")
    defaults = {"alpha": 1.6732632, "gamma": 1.050701}  # noqa: RUF012

    alpha: np.float32
    gamma: np.float32

    @staticmethod
    def value(x: Expression, alpha: Expression, gamma: Expression) -> Expression:
        """Return the definition."""
        return select(x > 0, gamma * x, gamma * (alpha * exponential_minus_one(select(x > 0, 0, x))))
