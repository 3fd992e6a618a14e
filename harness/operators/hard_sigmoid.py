"""HardSigmoid (ONNX), float32, with constants `alpha` and `beta`.

v[n] = alpha * x[n] + beta                 a product and a sum, each rounded half to even
y[n] = max(0, min(1, v[n]))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.operators.fault_models import FaultModel, Single
from harness.operators.function import Function, Range
from harness.operators.node import Node
from harness.operators.tensor import Tensor
from harness.operators.text import Fragment

ZERO, ONE = np.float32(0), np.float32(1)
RIGHT = "max(0, min(1, alpha * x + beta))"
FRAGMENT = Fragment(
    "hard_sigmoid_float32",
    82,
    """\
# ONNX HardSigmoid: one IEEE float32 product and one sum, then two comparisons.
fragment hard_sigmoid_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    alpha: scalar, beta: scalar,            # float32
    type: string)
-> (y: tensor<scalar>)
{
    v = alpha * x + beta;
    w = select(v > 1.0, 1.0, v);
    y = select(w < 0.0, 0.0, w);
}
""",
)


def hard_sigmoid(x: Single, alpha: np.float32, beta: np.float32) -> Single:
    """Return max(0, min(1, alpha * x + beta)), float32 of the same shape; a NaN gives a NaN."""
    with np.errstate(all="ignore"):
        v = alpha * x + beta
    w = np.where(v > ONE, ONE, v)
    return np.where(w < ZERO, ZERO, w)


@dataclass(frozen=True, eq=False)
class HardSigmoid(Function):
    """y[n] = max(0, min(1, alpha * x[n] + beta)); ONNX Runtime 1.31 gives the same bits for all inputs."""

    ONNX = (("", "HardSigmoid"),)
    formula = f"{'y[n] = max(0, min(1, alpha * x[n] + beta))':62} in float32; alpha is 0.2, beta 0.5 if not given"
    fragments = (FRAGMENT,)
    defaults = {"alpha": 0.2, "beta": 0.5}  # noqa: RUF012
    piecewise_monotone = True
    interval = (-10.0, 10.0)
    places = (-2.5, 2.5)

    alpha: np.float32
    beta: np.float32

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:
        """Return 1 as the bound; refuse 0 times infinity, and a sum that can be -0."""
        if numbers["alpha"] == 0 and np.isinf(source.bound):
            raise node.refusal(
                f"its result can be NaN: {source.name!r} can be infinite and alpha is 0",
                "another alpha, or Clip its input",
            )
        if numbers["beta"] == 0 and np.signbit(numbers["beta"]):  # the maximum of 0 and -0 can be either
            raise node.refusal("beta is -0.0", "0.0")
        return Range(1.0, False)

    def function(self, x: Single) -> Single:
        """Return the function of x."""
        return hard_sigmoid(x, self.alpha, self.beta)

    def wrong_functions(self, x: Single) -> Iterator[FaultModel]:
        """Yield other bounds, factors and orders."""
        alpha, beta = self.alpha, self.beta
        v = alpha * x + beta
        yield FaultModel("the lower bound is left out", RIGHT, np.where(v > ONE, ONE, v))
        yield FaultModel("the upper bound is left out", RIGHT, np.where(v < ZERO, ZERO, v))
        yield FaultModel("both bounds are left out", RIGHT, v)
        yield FaultModel("alpha and beta are exchanged", RIGHT, hard_sigmoid(x, beta, alpha))
        yield FaultModel("beta is left out", RIGHT, hard_sigmoid(x, alpha, ZERO))
        yield FaultModel("beta is added first: alpha * (x + beta)", RIGHT, hard_sigmoid(x + beta, alpha, ZERO))
        yield FaultModel("alpha is the default", RIGHT, hard_sigmoid(x, np.float32(0.2), beta))
        yield FaultModel("x is divided by 1 / alpha", RIGHT, hard_sigmoid(x / (ONE / alpha), ONE, beta))
        swapped = hard_sigmoid(x, alpha.byteswap(), beta.byteswap())
        yield FaultModel("the bytes of alpha and beta are in the other order", RIGHT, swapped)
