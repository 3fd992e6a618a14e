"""Exp (ONNX), float32: exp of elementary.py, a stated order of float32 operations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.operators import elementary
from harness.operators.fault_models import FaultModel, Single
from harness.operators.function import ORDER, Approximation, Range
from harness.operators.node import Node
from harness.operators.tensor import Tensor
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "exp_float32",
    83,
    """\
# ONNX Exp: IEEE float32 operations in this order.
fragment exp_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = exponential(x);
}
""",
    (elementary.EXPONENTIAL,),
)


@dataclass(frozen=True, eq=False)
class Exp(Approximation):
    """y[n] = exp(x[n]); it can be infinite, and 0."""

    ONNX = (("", "Exp"),)
    least_output = 0.0
    formula = f"{'y[n] = exp(x[n])':62} in float32, by the operations of kernels/c/elementary.h"
    fragments = (FRAGMENT,)
    largest_ulp = 2  # 1 was measured
    piecewise_monotone = True
    interval = (-105.0, 89.0)
    places = (-104.5, -103.9721, -87.33655, -0.3465736, 0.3465736, 88.72284, 104.5)

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:  # noqa: ARG003
        """Return exp of the largest input, and an ulp more."""
        largest = elementary.exp(np.array([source.bound], np.float32))[0]
        return Range(math.inf if np.isinf(largest) else float(np.nextafter(largest, np.float32(np.inf))), False)

    def function(self, x: Single) -> Single:
        """Return exp(x)."""
        return elementary.exp(x)

    def wrong_functions(self, x: Single) -> Iterator[FaultModel]:
        """Yield other functions, and other ways to compute this one."""
        real = x.astype(np.float64)
        yield FaultModel("the result is the float32 nearest to exp", ORDER, np.exp(real).astype(np.float32))
        yield FaultModel("the base is 2", "the base is e", np.exp2(real).astype(np.float32))
        yield FaultModel("1 is subtracted", "exp(x)", np.expm1(real).astype(np.float32))
        yield FaultModel("the sign of x is changed", "exp(x)", elementary.exp(-x))
        e, half = elementary.exp(x * np.float32(0.5)), np.float32(2)
        yield FaultModel("it is the square of exp(x / 2)", ORDER, e**half)
