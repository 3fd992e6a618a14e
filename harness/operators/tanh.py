"""Tanh (ONNX), float32: tanh(x[n])."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression, bits, from_bits
from harness.operators.exact.functions import SIGN, exponential, hyperbolic_tangent, logistic, within
from harness.operators.fault_models import Real
from harness.operators.pointwise import Approximated


def _without_polynomial(x: Expression) -> Expression:
    large = 1 - 2 / (exponential(abs(x + x)) + 1)
    return from_bits(bits(large) | (bits(x) & SIGN))


@dataclass(frozen=True, eq=False)
class Tanh(Approximated):
    """y[n] = tanh(x[n])."""

    ONNX = (("", "Tanh"),)
    largest_ulp = 6  # 5 was measured
    largest_difference = 2.0**-141  # 1.57e-43 was measured: its products of small x are subnormal
    curvature = 0.77  # 4 / (3 sqrt(3))
    places = (-0.625, 0.625, -52.25, 52.25, -9.0109, 9.0109)
    alternatives = {  # noqa: RUF012
        "the function is the logistic function": logistic,
        "tanh is (exp(2x) - 1) / (exp(2x) + 1)": lambda x: (exponential(x + x) - 1) / (exponential(x + x) + 1),
        "the polynomial for small |x| is not used": _without_polynomial,
        "numbers beyond 1 are kept: a hard tanh": lambda x: within(x, 1.0),
    }

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return hyperbolic_tangent(x)

    def slope(self, y: Real) -> Real:
        """Return 1 - y^2."""
        return 1 - y * y
