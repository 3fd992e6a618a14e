"""exp, exp - 1, tanh and the logistic function, float32 -> float32, as kernels/c/elementary.h computes them.

Every operation is one IEEE 754 float32 operation, rounded half to even; kernels/c/elementary.h states the formulas in
the same letters.  numpy's +, -, *, / and comparisons of float32 are such operations, np.abs and views change bits only.
All 2^32 inputs are accepted, and a NaN gives a NaN.  Largest errors in ulp of the result, measured for all inputs
(docs/float-operators.md): exp 0.78, exp - 1 0.92, tanh 1.35, logistic 1.68.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.operators.fault_models import Single
from harness.operators.text import Fragment

Function: TypeAlias = Callable[[Single], Single]

BOUND, MINUS_ONE_BOUND, ROUNDER = np.float32(104.5), np.float32(24), np.float32(1.5 * 2**23)
LOG2E, LN2_HIGH, LN2_LOW = (
    np.float32(float.fromhex(digits)) for digits in ("0x1.715476p+0", "0x1.62e4p-1", "0x1.7f7d1cp-20")
)
E2, E3, E4, E5, E6 = (
    np.float32(float.fromhex(digits))
    for digits in ("0x1.fffffcp-2", "0x1.55548cp-3", "0x1.555858p-5", "0x1.123dep-7", "0x1.6ac74ep-10")
)
T0, T1, T2, T3, T4 = (
    np.float32(float.fromhex(digits))
    for digits in ("-0x1.555532p-2", "0x1.1106f6p-3", "-0x1.b835a4p-5", "0x1.51f8cep-6", "-0x1.750ce4p-8")
)
TANH_SMALL, LOGISTIC_SMALL = np.float32(0.625), np.float32(-1.0625)
ONE, TWO = np.float32(1), np.float32(2)
SIGN, ROUNDER_BITS = np.uint32(0x80000000), np.uint32(0x4B400000)

POWER = Fragment(
    "exp_power",
    78,
    f"""\
# The n of exp(v) = 2 ^ n * (1 + r + q), for |v| of at most {BOUND!s}.
fragment exp_power(v: tensor<scalar>) -> (n: tensor<scalar>)
{{
    n = (v * {LOG2E!s} + {ROUNDER!s}) - {ROUNDER!s};
}}
""",
)
REDUCED = Fragment(
    "exp_reduced",
    79,
    f"""\
# The r of exp(v) = 2 ^ n * (1 + r + q).
fragment exp_reduced(v: tensor<scalar>, n: tensor<scalar>) -> (r: tensor<scalar>)
{{
    r = (v - n * {LN2_HIGH!s}) - n * {LN2_LOW!s};
}}
""",
)
REST = Fragment(
    "exp_rest",
    80,
    f"""\
# The q of exp(v) = 2 ^ n * (1 + r + q).
fragment exp_rest(v: tensor<scalar>, n: tensor<scalar>, r: tensor<scalar>) -> (q: tensor<scalar>)
{{
    c = ((v - n * {LN2_HIGH!s}) - r) - n * {LN2_LOW!s};
    p = ((({E6!s} * r + {E5!s}) * r + {E4!s}) * r + {E3!s}) * r + {E2!s};
    q = c + (r * r) * p;
}}
""",
)
PARTS = (POWER, REDUCED, REST)
EXPONENTIAL = Fragment(
    "exponential",
    81,
    f"""\
# exp(x) by IEEE float32 operations in this order.
fragment exponential(x: tensor<scalar>) -> (y: tensor<scalar>)
{{
    above = select(x < -{BOUND!s}, -{BOUND!s}, x);
    v = select(above > {BOUND!s}, {BOUND!s}, above);
    n = exp_power(v);
    r = exp_reduced(v, n);
    q = exp_rest(v, n, r);
    s = 1.0 + r;
    d = (1.0 - s) + r;
    h = floor(n * 0.5);
    y = ((s + (d + q)) * 2.0 ^ h) * 2.0 ^ (n - h);
}}
""",
    PARTS,
)


class _Parts(NamedTuple):
    """exp(x) = 2^n (1 + r + q); `biased` is n + 254, uint32."""

    r: Single
    q: Single
    biased: npt.NDArray[np.uint32]


def _silent(function: Function) -> Function:
    """Return the function without warnings: its overflow, underflow and NaN are IEEE 754's."""

    @functools.wraps(function)
    def quiet(x: Single) -> Single:
        with np.errstate(all="ignore"):
            return function(x)

    return quiet


def _float(bits: npt.NDArray[np.uint32]) -> Single:
    return bits.view(np.float32)


def _parts(v: Single) -> _Parts:
    t = v * LOG2E + ROUNDER
    n = t - ROUNDER
    a = v - n * LN2_HIGH
    b = n * LN2_LOW
    r = a - b
    c = (a - r) - b
    q = c + (r * r) * ((((E6 * r + E5) * r + E4) * r + E3) * r + E2)
    return _Parts(r, q, t.view(np.uint32) - (ROUNDER_BITS - np.uint32(254)))


@_silent
def exp(x: Single) -> Single:
    """Return e to the power of x, float32 of the same shape; it can be 0 and infinite."""
    above = np.where(x < -BOUND, -BOUND, x)
    r, q, biased = _parts(np.where(above > BOUND, BOUND, above))
    s = ONE + r
    d = (ONE - s) + r
    half = biased >> np.uint32(1)
    return ((s + (d + q)) * _float(half << np.uint32(23))) * _float((biased - half) << np.uint32(23))


@_silent
def exp_minus_one(x: Single) -> Single:
    """Return exp(x) - 1 for x <= 0 or NaN, float32 of the same shape."""
    r, q, biased = _parts(np.where(x < -MINUS_ONE_BOUND, -MINUS_ONE_BOUND, x))
    power = _float((biased - np.uint32(127)) << np.uint32(23))
    return (r + q) * power + (power - ONE)


@_silent
def tanh(x: Single) -> Single:
    """Return the hyperbolic tangent of x, float32 of the same shape; it keeps the sign of zero."""
    sign = x.view(np.uint32) & SIGN
    m = np.abs(x)
    s = m * m
    small = m + (m * s) * ((((T4 * s + T3) * s + T2) * s + T1) * s + T0)
    large = ONE - TWO / (exp(m + m) + ONE)
    magnitude: Single = np.where(m < TANH_SMALL, small, large)
    bits: npt.NDArray[np.uint32] = magnitude.view(np.uint32) | sign
    return _float(bits)


@_silent
def logistic(x: Single) -> Single:
    """Return the logistic function of x, 1 / (1 + exp(-x)), float32 of the same shape."""
    e = exp(_float(x.view(np.uint32) | SIGN))
    y = np.where(x < 0, e, ONE) / (ONE + e)
    corrected: Single = np.where(x < LOGISTIC_SMALL, e - e * y, y)
    return corrected
