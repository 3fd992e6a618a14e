"""Elu (ONNX), float32, with a constant factor `alpha`.

y[n] = alpha * (exp(x[n]) - 1) if x[n] < 0, else x[n]      exp(x) - 1 as one function of elementary.py; -0 stays -0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators import elementary
from harness.operators.fault_models import FaultModel, Single
from harness.operators.function import ORDER, Function, Range, ulp_of
from harness.operators.node import Node
from harness.operators.tensor import Tensor
from harness.operators.text import Fragment

CANCELLATION = 1.5 * 2.0**-24
"""Largest difference of ONNX Runtime for an alpha of 1: it computes exp(x), then subtracts 1."""
FRAGMENT = Fragment(
    "elu_float32",
    86,
    f"""\
# ONNX Elu: IEEE float32 operations in this order; -0.0 stays.
fragment elu_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    alpha: scalar,                          # float32
    type: string)
-> (y: tensor<scalar>)
{{
    v = select(x < -{elementary.MINUS_ONE_BOUND!s}, -{elementary.MINUS_ONE_BOUND!s}, select(x < 0.0, x, 0.0));
    n = exp_power(v);
    r = exp_reduced(v, n);
    power = 2.0 ^ n;
    less_one = (r + exp_rest(v, n, r)) * power + (power - 1.0);
    y = select(x < 0.0, alpha * less_one, x);
}}
""",
    elementary.PARTS,
)


@dataclass(frozen=True, eq=False)
class Elu(Function):
    """y[n] = alpha * (exp(x[n]) - 1) if x[n] < 0, else x[n].

    exp(x) - 1 has no cancellation: a small x keeps its digits, which ONNX Runtime loses.
    """

    ONNX = (("", "Elu"),)
    formula = f"{'y[n] = alpha * (exp(x[n]) - 1) if x[n] < 0, else x[n]':62} in float32; alpha is 1 if not given"
    fragments = (FRAGMENT,)
    defaults = {"alpha": 1.0}  # noqa: RUF012
    piecewise_monotone = True
    interval = (-25.0, 10.0)
    places = (-24.0, -17.32868, -0.3465736)

    alpha: np.float32

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:  # noqa: ARG003
        """Return the larger one of alpha and the input's bound."""
        return Range(max(source.bound, float(np.abs(numbers["alpha"]))), True)

    def function(self, x: Single) -> Single:
        """Return the function of x."""
        below = x < 0
        with np.errstate(all="ignore"):
            return np.where(below, self.alpha * elementary.exp_minus_one(np.where(below, x, np.float32(0))), x)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:
        """Return the cancellation and the roundings of products with alpha; 0 where the input is kept."""
        allowed = CANCELLATION * abs(float(self.alpha)) + 2 * ulp_of(output)
        return np.where(inputs[0] < 0, allowed, 0)

    def wrong_functions(self, x: Single) -> Iterator[FaultModel]:
        """Yield other functions, factors, and other ways to compute this one."""
        right, below, one = "alpha * (exp(x) - 1) below 0, else x", x < 0, np.float32(1)
        outputs = {
            "negative numbers are kept": x,
            "negative numbers become 0": np.where(below, np.float32(0), x),
            "negative numbers are multiplied by alpha": np.where(below, self.alpha * x, x),
            "alpha is left out": np.where(below, elementary.exp_minus_one(np.minimum(x, np.float32(0))), x),
            "1 is not subtracted": np.where(below, self.alpha * elementary.exp(x), x),
            "the bytes of alpha are in the other order": np.where(
                below, self.alpha.byteswap() * elementary.exp_minus_one(np.minimum(x, np.float32(0))), x
            ),
        }
        for cause, output in outputs.items():
            yield FaultModel(cause, right, output)
        cancelled = np.where(below, self.alpha * (elementary.exp(x) - one), x)
        yield FaultModel("1 is subtracted from the rounded exp(x)", ORDER, cancelled)
        exact = (float(self.alpha) * np.expm1(x.astype(np.float64))).astype(np.float32)
        yield FaultModel("the result is the float32 nearest to alpha * (exp(x) - 1)", ORDER, np.where(below, exact, x))
