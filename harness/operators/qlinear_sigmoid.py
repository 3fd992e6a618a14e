"""QLinearSigmoid (com.microsoft), uint8 or int8: the logistic function, as ONNX Runtime's polynomial computes it.

d = float32(x_scale * (x - x_zero_point)), clamped to -18..18;  s = float32(d * d)
p = fma(...fma(fma(s, P[0], P[1]), s, P[2])..., s, P[4]) * d      each fma and each product rounded once
q = fma(...fma(fma(s, Q[0], Q[1]), s, Q[2])..., s, Q[5])
v = float32(clamp(float32(float32(p / q) + 0.5), 0, 1) / y_scale)
y = saturate(round_half_even(v) + y_zero_point)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.operators import softfloat
from harness.operators.exact import bits_of, from_ordered, ordered
from harness.operators.fault_models import Single
from harness.operators.lookup import Lookup, fragment
from harness.operators.node import Node
from harness.operators.softfloat import Integers

BOUND = np.float32(18)
P = np.array([4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03,
              2.48287947061529e-01], np.float32)  # fmt: skip
Q = np.array([6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03,
              1.16817656904453e-01, 9.93151921023180e-01], np.float32)  # fmt: skip
"""Coefficients of the rational approximation of logistic(d) - 0.5, odd over even, of MLAS and Eigen."""

POLYNOMIAL = "ONNX Runtime's polynomial, with fused multiply-adds"
FRAGMENT = fragment(
    "qlinear_sigmoid",
    46,
    "QLinearSigmoid",
    """\
# d = x_scale * (code - x_zero_point) in float32, then v = logistic(d) / y_scale by the polynomial of ONNX Runtime,
# whose multiply-adds are fused; the entry is v, rounded half to even, and y_zero_point, clamped.""",
)


@dataclass(frozen=True, eq=False)
class QLinearSigmoid(Lookup):
    """A quantised Sigmoid.

    Measured with ONNX Runtime 1.31.1 on x86-64 with FMA3: 0 of 1,152,000 entries of tables differ, over 4,500 random
    choices of scales and zero points.  With multiply-adds that are not fused, as ONNX Runtime has them on processors
    without FMA3, 7 entries differ; with the correctly rounded function 8.
    """

    ONNX = (("com.microsoft", "QLinearSigmoid"),)
    formula = """\
d = x_scale * (x - x_zero_point)                               in float32
v = logistic(d) / y_scale                                      in float32, by ONNX Runtime's polynomial with FMA
y = round_half_even(v) + y_zero_point                          clamped to uint8 or int8"""
    fragments = (FRAGMENT,)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of codes of any shape."""
        node.attributes({})
        return cls(**cls.read_fields(node))

    def function(self, values: Single) -> Single:
        """Return the logistic function in the stated operations."""
        bounds = ordered(np.array([-BOUND, BOUND]))
        d = bits_of(from_ordered(np.clip(ordered(values), *bounds)))
        square = _product(d, d)
        p, q = _product(_polynomial(square, P), d), _polynomial(square, Q)
        half, one = bits_of(np.array([0.5, 1], np.float32))
        y = softfloat.add(softfloat.quotient(p, q).astype(np.int64), half).view(np.float32)
        return from_ordered(np.clip(ordered(y), 0, one))

    def wrong_functions(self, values: Single) -> Iterator[tuple[str, str, Single]]:
        """Yield other functions, and other ways to compute this one."""
        d = np.clip(values, -BOUND, BOUND)
        logistic = 1 / (1 + np.exp(-values.astype(np.float64)))
        p, q = (np.zeros(d.shape, np.float32) for _ in "pq")
        for coefficient in P:
            p = p * (d * d) + coefficient
        for coefficient in Q:
            q = q * (d * d) + coefficient
        yield "the multiply-adds of the polynomial are not fused", POLYNOMIAL, p * d / q + np.float32(0.5)
        yield "the logistic function is rounded correctly", POLYNOMIAL, logistic.astype(np.float32)
        yield "the function is tanh", "logistic", np.tanh(values)
        yield "the function is the hard sigmoid", "logistic", np.clip(values / np.float32(6) + np.float32(0.5), 0, 1)
        yield "the function is logistic(-x)", "logistic", (1 - logistic).astype(np.float32)


def _product(a: Integers, b: Integers) -> Integers:
    return softfloat.product(a, b).astype(np.int64)


def _polynomial(s: Integers, coefficients: Sequence[np.float32] | Single) -> Integers:
    """Return the polynomial in s with the highest coefficient first, by fused multiply-adds."""
    first, *others = bits_of(np.asarray(coefficients))[:, None]
    value = np.broadcast_to(first, s.shape)
    for coefficient in others:
        value = softfloat.fused(value, s, coefficient).astype(np.int64)
    return value
