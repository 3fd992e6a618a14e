"""Sigmoid (ONNX), float32: the logistic function of elementary.py, a stated order of float32 operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators import elementary
from harness.operators.fault_models import FaultModel, Real, Single
from harness.operators.float_errors import Perturbed
from harness.operators.function import ORDER, Approximation, Range
from harness.operators.node import Node
from harness.operators.tensor import Tensor
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "sigmoid_float32",
    85,
    """\
# ONNX Sigmoid: IEEE float32 operations in this order.
fragment sigmoid_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{
    e = exponential(-abs(x));
    large = select(x < 0.0, e, 1.0) / (1.0 + e);
    y = select(x < -1.0625, e - e * large, large);
}
""",
    (elementary.EXPONENTIAL,),
)


@dataclass(frozen=True, eq=False)
class Sigmoid(Approximation):
    """y[n] = 1 / (1 + exp(-x[n])).

    ONNX Runtime 1.31 adds 0.5 to a quotient of polynomials: its small results have absolute errors, or are 0.
    """

    ONNX = (("", "Sigmoid"),)
    least_output = 0.0
    formula = f"{'y[n] = 1 / (1 + exp(-x[n]))':62} in float32, by the operations of kernels/c/elementary.h"
    fragments = (FRAGMENT,)
    largest_difference = 2.0**-22  # 1.79e-7 was measured
    piecewise_monotone = True  # but for its roundings
    curvature = 0.097  # 1 / (6 sqrt(3))
    interval = (-20.0, 20.0)
    places = (-104.5, -103.9721, -87.33655, -1.0625, 16.63553, 104.5)

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:  # noqa: ARG003
        """Return 1 as the bound."""
        return Range(1.0, False)

    def slope(self, y: Real) -> Real:
        """Return y - y^2."""
        return y - y * y

    def function(self, x: Single) -> Single:
        """Return the logistic function of x."""
        return elementary.logistic(x)

    def distance(self, at: Perturbed) -> Array:
        """Return the change between both ends, and twice the error of 1.68 ulp, as the function is not monotone."""
        bound: Array = super().distance(at) + self.largest_difference
        return bound

    def wrong_functions(self, x: Single) -> Iterator[FaultModel]:
        """Yield other functions, and other ways to compute this one."""
        one = np.float32(1)
        exact = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)
        yield FaultModel("the result is the float32 nearest to the logistic function", ORDER, exact)
        yield FaultModel("the function is tanh", "the logistic function", elementary.tanh(x))
        yield FaultModel("the sign of x is changed", "logistic(x)", elementary.logistic(-x))
        yield FaultModel(
            "it is 1 / (1 + exp(-x)), which is 0 where exp overflows", ORDER, one / (one + elementary.exp(-x))
        )
        e = elementary.exp(-np.abs(x))
        divided = np.where(x < 0, e, one) / (one + e)
        yield FaultModel("the quotient e / (1 + e) is not corrected below -1.0625", ORDER, divided)
        hard = np.clip(x / np.float32(6) + np.float32(0.5), 0, one)
        yield FaultModel("the function is the hard sigmoid", "the logistic function", hard)
