"""Log (ONNX), float32: the natural logarithm of x[n], which is not negative; -infinity for 0."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression
from harness.operators.exact.functions import logarithm
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Log(Approximated):
    """y[n] = log(x[n])."""

    ONNX = (("", "Log"),)
    interval = (0.0, 10.0)
    least = 0.0
    largest_ulp = 3

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return logarithm(x)
