"""HardSwish (ONNX), float32.

v[n] = ALPHA * x[n] + 0.5                  ALPHA = float32(1 / 6), as ONNX defines it by HardSigmoid
y[n] = x[n] * max(0, min(1, v[n]))         each product and the sum is rounded half to even
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators.fault_models import FaultModel, Single
from harness.operators.float_errors import UNDERFLOW, UNIT_ROUNDOFF, Perturbed
from harness.operators.function import ORDER, Function, Range
from harness.operators.hard_sigmoid import FRAGMENT as HARD_SIGMOID
from harness.operators.hard_sigmoid import ZERO, hard_sigmoid
from harness.operators.node import Node
from harness.operators.tensor import Tensor
from harness.operators.text import Fragment

ALPHA, BETA = np.float32(1 / 6), np.float32(0.5)
RIGHT = "x * max(0, min(1, x / 6 + 0.5))"
FRAGMENT = Fragment(
    "hard_swish_float32",
    87,
    f"""\
# ONNX HardSwish: IEEE float32 operations in this order.
fragment hard_swish_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{{
    y = x * hard_sigmoid_float32(x, alpha = {ALPHA!s}, beta = {BETA!s}, type = type);
}}
""",
    (HARD_SIGMOID,),
)


@dataclass(frozen=True, eq=False)
class HardSwish(Function):
    """y[n] = x[n] * max(0, min(1, x[n] * float32(1 / 6) + 0.5)); ONNX Runtime 1.31 gives the same bits for all inputs.

    A division by 6 gives other bits.
    """

    ONNX = (("", "HardSwish"),)
    formula = f"{'y[n] = x[n] * max(0, min(1, x[n] * (1 / 6) + 0.5))':62} in float32, 1 / 6 too"
    fragments = (FRAGMENT,)
    interval = (-10.0, 10.0)
    places = (-3.0, 3.0)

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:  # noqa: ARG003
        """Return the input's bound."""
        return Range(source.bound, True)

    def function(self, x: Single) -> Single:
        """Return the function of x."""
        with np.errstate(all="ignore"):
            return x * hard_sigmoid(x, ALPHA, BETA)

    def distance(self, at: Perturbed) -> Array:
        """Return 1.5 times the error, the steepest slope, and four roundings of each result."""
        [error], [largest] = at.errors, at.magnitudes()
        bound: Array = 1.5 * error + 8 * UNIT_ROUNDOFF * largest + UNDERFLOW
        return bound

    def wrong_functions(self, x: Single) -> Iterator[FaultModel]:
        """Yield other bounds, factors and orders."""
        factor, v = hard_sigmoid(x, ALPHA, BETA), ALPHA * x + BETA
        yield FaultModel(
            "x is divided by 6",
            "x is multiplied by float32(1 / 6)",
            x * hard_sigmoid(x / np.float32(6), np.float32(1), BETA),
        )
        yield FaultModel("the factor x is left out", RIGHT, factor)
        yield FaultModel("the lower bound is left out", RIGHT, x * np.where(v > 1, np.float32(1), v))
        yield FaultModel("the upper bound is left out", RIGHT, x * np.where(v < 0, ZERO, v))
        yield FaultModel("0.5 is left out", RIGHT, x * hard_sigmoid(x, ALPHA, ZERO))
        relu6 = np.clip(x + np.float32(3), ZERO, np.float32(6))
        yield FaultModel("it is (x * min(max(x + 3, 0), 6)) / 6", ORDER, (x * relu6) / np.float32(6))
        yield FaultModel("-0 becomes 0", "-0 stays -0", self.function(x) + ZERO)
