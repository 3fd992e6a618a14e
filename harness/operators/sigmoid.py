"""Sigmoid (ONNX), float32: 1 / (1 + exp(-x[n]))."""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.exact.expression import Expression, select
from harness.operators.exact.functions import exponential, hyperbolic_tangent, logistic
from harness.operators.fault_models import Real
from harness.operators.hard_sigmoid import hard_sigmoid
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
