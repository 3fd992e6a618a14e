"""QLinearSigmoid (com.microsoft), uint8 or int8: the logistic function, as ONNX Runtime's polynomial computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.operators.codes import Quantised
from harness.operators.exact.expression import Expression, function, fused, larger, literal, named, smaller
from harness.operators.exact.functions import hyperbolic_tangent
from harness.operators.lookup import Lookup, fragment
from harness.operators.node import Node

BOUND = 18.0
P = np.array([4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03,
              2.48287947061529e-01], np.float32)  # fmt: skip
Q = np.array([6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03,
              1.16817656904453e-01, 9.93151921023180e-01], np.float32)  # fmt: skip
"""Coefficients of the rational approximation of logistic(d) - 0.5, odd over even, of MLAS and Eigen."""

FRAGMENT = fragment(
    "qlinear_sigmoid",
    46,
    "QLinearSigmoid",
    """\
# d = x_scale * (code - x_zero_point) in float32, then v = logistic(d) / y_scale by the polynomial of ONNX Runtime,
# whose multiply-adds are fused; the entry is v, rounded half to even, and y_zero_point, clamped.""",
)


def _rational(x: Expression, multiply_add: Callable[..., Expression] = fused) -> Expression:
    """Return the function for a number, which is limited to BOUND."""
    d = larger(smaller(x, BOUND), -BOUND)
    square = d * d
    p, q = literal(P[0]), literal(Q[0])
    for coefficient in P[1:]:
        p = multiply_add(p, square, coefficient)
    for coefficient in Q[1:]:
        q = multiply_add(q, square, coefficient)
    return larger(smaller(p * d / q + 0.5, 1), 0)


@function(lambda x: 1 / (1 + np.exp(-x)), ulp=np.inf, limits=(0.0, 1.0))
def logistic_by_fma(x: Expression) -> Expression:
    """Return the logistic function by fused multiply-adds; below 0 no bound of its relative error is known."""
    return _rational(x)


@dataclass(frozen=True, eq=False)
class QLinearSigmoid(Lookup):
    """A quantised Sigmoid.

    Measured with ONNX Runtime 1.31.1 on x86-64 with FMA3: 0 of 1,152,000 entries of tables differ, over 4,500 random
    choices of scales and zero points.  With multiply-adds that are not fused, as ONNX Runtime has them on processors
    without FMA3, 7 entries differ; with the correctly rounded function 8.
    """

    ONNX = (("com.microsoft", "QLinearSigmoid"),)
    text = Lookup.text.but(fragments=(FRAGMENT,))
    alternatives = {  # noqa: RUF012
        "the multiply-adds of the polynomial are not fused": lambda x, y: (
            _rational(x.dequantised, lambda a, b, c: a * b + c) / y.scale
        ),
        "the function is tanh": lambda x, y: hyperbolic_tangent(x.dequantised) / y.scale,
        "the function is the hard sigmoid": lambda x, y: smaller(larger(x.dequantised / 6 + 0.5, 0), 1) / y.scale,
        "the function is logistic(-x)": lambda x, y: logistic_by_fma(-x.dequantised) / y.scale,
    }

    @staticmethod
    def value(x: Quantised, y: Quantised) -> Expression:
        """Return the definition."""
        return logistic_by_fma(named("d", x.dequantised)) / y.scale

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of codes of any shape."""
        node.attributes({})
        return cls(**cls.read_fields(node))
