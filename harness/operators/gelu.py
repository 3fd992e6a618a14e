"""Gelu (ONNX), float32: 0.5 x[n] (1 + erf(x[n] / sqrt(2)))."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression
from harness.operators.exact.functions import error_function
from harness.operators.pointwise import Approximated

ROOT_OF_HALF = 0.70710677  # float32


@dataclass(frozen=True, eq=False)
class Gelu(Approximated):
    """y[n] = 0.5 x[n] (1 + erf(x[n] / sqrt(2)))."""

    ONNX = (("", "Gelu"),)
    largest_ulp = 4
    largest_difference = 2.0**-20  # 4.8e-7 was measured: 1 + erf(x) cancels

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return (0.5 * x) * (1 + error_function(x * ROOT_OF_HALF))
