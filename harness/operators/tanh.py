"""Tanh (ONNX), float32: tanh of elementary.py, a stated order of float32 operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.operators import elementary
from harness.operators.elementary import T0, T1, T2, T3, T4
from harness.operators.fault_models import FaultModel, Real, Single
from harness.operators.function import ORDER, Approximation, Range
from harness.operators.node import Node
from harness.operators.tensor import Tensor
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "tanh_float32",
    84,
    f"""\
# ONNX Tanh: IEEE float32 operations in this order.
fragment tanh_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    type: string)
-> (y: tensor<scalar>)
{{
    m = abs(x);
    s = m * m;
    p = ((({T3!s} - {-T4!s} * s) * s - {-T2!s}) * s + {T1!s}) * s - {-T0!s};
    large = 1.0 - 2.0 / (exponential(m + m) + 1.0);
    magnitude = select(m < 0.625, m + (m * s) * p, large);
    y = select(x < 0.0, -magnitude, select(x > 0.0, magnitude, x));
}}
""",
    (elementary.EXPONENTIAL,),
)


@dataclass(frozen=True, eq=False)
class Tanh(Approximation):
    """y[n] = tanh(x[n])."""

    ONNX = (("", "Tanh"),)
    formula = f"{'y[n] = tanh(x[n])':62} in float32, by the operations of kernels/c/elementary.h"
    fragments = (FRAGMENT,)
    largest_ulp = 6  # 5 was measured
    largest_difference = 2.0**-141  # 1.57e-43 was measured: its products of small x are subnormal
    piecewise_monotone = True
    curvature = 0.77  # 4 / (3 sqrt(3))
    interval = (-10.0, 10.0)
    places = (-0.625, 0.625, -52.25, 52.25, -9.0109, 9.0109)

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:  # noqa: ARG003 - as above
        """Return 1 as the bound."""
        return Range(1.0, source.negative_zero)

    def slope(self, y: Real) -> Real:
        """Return 1 - y^2."""
        return 1 - y * y

    def function(self, x: Single) -> Single:
        """Return tanh(x)."""
        return elementary.tanh(x)

    def wrong_functions(self, x: Single) -> Iterator[FaultModel]:
        """Yield other functions, and other ways to compute this one."""
        exact = np.tanh(x.astype(np.float64)).astype(np.float32)
        yield FaultModel("the result is the float32 nearest to tanh", ORDER, exact)
        yield FaultModel("the function is the logistic function", "tanh", elementary.logistic(x))
        e = elementary.exp(x + x)
        yield FaultModel("tanh is (exp(2x) - 1) / (exp(2x) + 1)", ORDER, (e - np.float32(1)) / (e + np.float32(1)))
        large = np.float32(1) - np.float32(2) / (elementary.exp(np.abs(x + x)) + np.float32(1))
        yield FaultModel("the polynomial for small |x| is not used", ORDER, np.copysign(large, x))
        yield FaultModel("numbers beyond 1 are kept: a hard tanh", "tanh", np.clip(x, np.float32(-1), np.float32(1)))
