"""Mish (ONNX), float32: x[n] * tanh(log(1 + exp(x[n])))."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression
from harness.operators.exact.functions import hyperbolic_tangent, softplus
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Mish(Approximated):
    """y[n] = x[n] * tanh(log(1 + exp(x[n])))."""

    ONNX = (("", "Mish"),)
    largest_ulp = 16  # 9 was measured
    largest_difference = 2.0**-130

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return x * hyperbolic_tangent(softplus(x))
