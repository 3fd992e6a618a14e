"""Softplus (ONNX), float32: log(1 + exp(x[n]))."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression
from harness.operators.exact.functions import softplus
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Softplus(Approximated):
    """y[n] = log(1 + exp(x[n]))."""

    ONNX = (("", "Softplus"),)
    least_output = 0.0
    largest_ulp = 8  # 5 was measured
    largest_difference = 2.0**-140

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return softplus(x)
