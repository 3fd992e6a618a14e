"""Sigmoid and Tanh (ONNX), float32: the logistic function and the hyperbolic tangent."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.activations import hard_sigmoid
from harness.operators.exact.expression import Expression, bits, from_bits, select
from harness.operators.exact.functions import SIGN, exponential, hyperbolic_tangent, logistic, within
from harness.operators.fault_models import Real
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Sigmoid(Approximated):
    """y[n] = 1 / (1 + exp(-x[n])).

    ONNX Runtime 1.31 adds 0.5 to a quotient of polynomials: its small results have absolute errors, or are 0.
    """

    ONNX = (("", "Sigmoid"),)
    least_output = 0.0
    largest_difference = 2.0**-22  # 1.79e-7 was measured
    curvature = 0.097  # 1 / (6 sqrt(3))
    interval = (-20.0, 20.0)
    places = (-104.5, -103.9721, -87.33655, -1.0625, 16.63553, 104.5)
    alternatives = {  # noqa: RUF012
        "the function is tanh": hyperbolic_tangent,
        "it is 1 / (1 + exp(-x)), which is 0 where exp overflows": lambda x: 1 / (1 + exponential(-x)),
        "the quotient e / (1 + e) is not corrected below -1.0625": lambda x: _quotient(x, exponential(-abs(x))),
        "the function is the hard sigmoid": lambda x: hard_sigmoid(x / 6, 1.0, 0.5),
    }

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return logistic(x)

    def slope(self, y: Real) -> Real:
        """Return y - y^2."""
        return y - y * y


def _quotient(x: Expression, e: Expression) -> Expression:
    return select(x < 0, e, 1.0) / (1 + e)


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
