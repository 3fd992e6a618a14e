"""Erf (ONNX), float32: the error function of x[n]."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression
from harness.operators.exact.functions import error_function
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Erf(Approximated):
    """y[n] = the error function of x[n]."""

    ONNX = (("", "Erf"),)
    largest_ulp = 4  # 2 was measured
    largest_difference = 2.0**-140

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return error_function(x)
