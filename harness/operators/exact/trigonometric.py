"""Trigonometric and hyperbolic functions of one float32, and their inverses; a NaN gives a NaN.

The coefficients are those of functions.py's method.  Zero keeps its sign.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.operators.exact.expression import (
    FLOAT32,
    UINT32,
    UINT64,
    Expression,
    bits,
    converted,
    equal,
    from_bits,
    function,
    literal,
    named,
    select,
    shifted,
    square_root,
)
from harness.operators.exact.functions import (
    coefficients,
    exponential,
    exponential_minus_one,
    logarithm,
    logarithm_of_one_plus,
    polynomial,
)

HALF_PI, QUARTER_PI, LN2, ROOT_OF_TWO = 1.5707964, 0.7853982, 0.6931472, 1.4142135
HUGE = 2.0**60
"""Beside its square 1 counts nothing."""
ARCTANGENT = coefficients("-0x1.55554ap-2", "0x1.9991e8p-3", "-0x1.23ba42p-3", "0x1.b22ecap-4", "-0x1.f31d54p-5")
ARCSINE = coefficients("0x1.5555cap-3", "0x1.33016ap-4", "0x1.748a2cp-5", "0x1.8bb536p-6", "0x1.59cc92p-5")


def _quiet(real: Any) -> Any:
    """Return a function of numpy that is silent where it is NaN or infinite."""

    def evaluated(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return real(x)

    return evaluated


def _signed(x: Expression, magnitude: Expression) -> Expression:
    """Return a magnitude with the sign of x; zeros and NaN stay."""
    return select(x < 0, -magnitude, select(x > 0, magnitude, x))


@function(_quiet(np.sinh), ulp=3.8)
def hyperbolic_sine(x: Expression) -> Expression:
    """Return sinh(x): by t = exp(-|x|) - 1 below 1, and by the square of exp(|x| / 2)."""
    m = named("m", abs(x))
    t = named("t", exponential_minus_one(-m))
    u = named("u", exponential(m * 0.5))
    large = (0.5 * u) * u - 0.5 / (u * u)
    return _signed(x, select(m < 1, -0.5 * (t + t / (1 + t)), large))


@function(_quiet(np.cosh), ulp=2.6, limits=(1.0, np.inf))
def hyperbolic_cosine(x: Expression) -> Expression:
    """Return cosh(x) for x of at least 0, by the square of exp(x / 2)."""
    u = named("u", exponential(x * 0.5))
    return (0.5 * u) * u + 0.5 / (u * u)


@function(np.arctan, ulp=2.6)
def arctangent(x: Expression) -> Expression:
    """Return atan(x): of 1 / |x| above 1, and of (z - 1) / (z + 1) above the tangent of pi / 8."""
    m = named("m", abs(x))
    z = named("z", select(m > 1, 1 / m, m))
    w = named("w", select(z > ROOT_OF_TWO - 1, (z - 1) / (z + 1), z))
    s = named("s", w * w)
    p = named("p", w + (w * s) * polynomial(s, ARCTANGENT))
    q = named("q", select(z > ROOT_OF_TWO - 1, QUARTER_PI + p, p))
    return _signed(x, select(m > 1, HALF_PI - q, q))


@function(_quiet(np.arcsin), ulp=2.45)
def arcsine(x: Expression) -> Expression:
    """Return asin(x): by that of the root of (1 - |x|) / 2 above 1/2; NaN beyond 1."""
    m = named("m", abs(x))
    half = named("half", (1 - m) * 0.5)
    z = named("z", select(m < 0.5, m, square_root(half)))
    s = named("s", select(m < 0.5, m * m, half))
    p = named("p", z + (z * s) * polynomial(s, ARCSINE))
    return _signed(x, select(m < 0.5, p, HALF_PI - (p + p)))


@function(_quiet(np.arccos), ulp=1.35, falls=True, limits=(0.0, 3.1415927))
def arccosine(x: Expression) -> Expression:
    """Return acos(x): pi / 2 - asin(x), and by the root of (1 - |x|) / 2 above 1/2; NaN beyond 1."""
    m = named("m", abs(x))
    half = named("half", (1 - m) * 0.5)
    s = named("s", select(m < 0.5, m * m, half))
    z = named("z", select(m < 0.5, x, square_root(half)))
    p = named("p", z + (z * s) * polynomial(s, ARCSINE))
    near = select(x < 0, 2 * HALF_PI - (p + p), p + p)
    return select(m < 0.5, HALF_PI - p, near)


@function(np.arcsinh, ulp=2.4)
def inverse_hyperbolic_sine(x: Expression) -> Expression:
    """Return asinh(x): log(1 + z) below 0.75, else log(|x| + sqrt(x^2 + 1))."""
    m = named("m", abs(x))
    root = named("root", square_root(m * m + 1))
    small = logarithm_of_one_plus(select(m < 0.75, m + (m * m) / (1 + root), 0))
    large = logarithm(select(m < HUGE, m + root, m)) + select(m < HUGE, 0, LN2)
    return _signed(x, select(m < 0.75, small, large))


@function(_quiet(np.arccosh), ulp=2.6, limits=(0.0, np.inf))
def inverse_hyperbolic_cosine(x: Expression) -> Expression:
    """Return acosh(x): log(1 + z) below 1.25, else log(x + sqrt(x^2 - 1)); NaN below 1."""
    t = named("t", x - 1)
    small = logarithm_of_one_plus(select(x < 1.25, t + square_root(t * 2 + t * t), 0))
    large = logarithm(select(x < HUGE, x + square_root(x * x - 1), x)) + select(x < HUGE, 0, LN2)
    return select(x < 1, square_root(t), select(x < 1.25, small, large))


@function(_quiet(np.arctanh), ulp=2.85)
def inverse_hyperbolic_tangent(x: Expression) -> Expression:
    """Return atanh(x): half of log(1 + 2 |x| / (1 - |x|)) below 1/3, else of log((1 + |x|) / (1 - |x|))."""
    m = named("m", abs(x))
    rest = named("rest", 1 - m)
    small = logarithm_of_one_plus(select(m < 0.33333334, (m + m) / rest, 0))
    large = logarithm((1 + m) / rest)
    return _signed(x, select(m < 0.33333334, small, large) * 0.5)


WORDS_OF_TURN = (0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0)
"""The bits of 2 / pi behind the point, 32 in a word, behind 34 bits of 0; the last word is never shifted in."""
SINE = coefficients("-0x1.555546p-3", "0x1.11077cp-7", "-0x1.9955aep-13")
COSINE = coefficients("0x1.55554ap-5", "-0x1.6c0c1ap-10", "0x1.99e0eep-16")
QUARTER = 0.7853981


def _chosen(index: Expression, words: Sequence[int]) -> Expression:
    """Return the word with this index, of at most as many words."""
    *others, last = words
    result = literal(last, UINT32)
    for place in reversed(range(len(others))):
        result = select(equal(index, place), literal(others[place], UINT32), result)
    return result


def _reduced(m: Expression) -> tuple[Expression, Expression]:
    """Return the quadrant, uint32, and r, |r| of about pi / 4 at most, of m = quadrant pi / 2 + r from 0 on.

    The product of the significand and of the bits of 2 / pi that count is exact modulo 4 but for 2^-62 (Payne and
    Hanek, Radian reduction for trigonometric functions, 1983); numbers up to QUARTER are r themselves.
    """
    word = named("word", bits(m))
    exponent = named("exponent", select(word < 126 << 23, literal(0, UINT32), (word >> 23) - 126))
    index, places = named("index", exponent >> 5), converted(exponent & 31, UINT64)
    parts = [converted(_chosen(index, WORDS_OF_TURN[first : first + 5]), UINT64) for first in range(4)]
    above, high, low = (
        shifted("shift_left", (one << 32) | other, places) >> 32 for one, other in itertools.pairwise(parts)
    )
    significand = named("significand", converted((word << 8) | 0x80000000, UINT64))
    product = ((significand * above) << 32) + significand * high + ((significand * low) >> 32)
    nearest = named("nearest", product + (1 << 61))
    rest = named("rest", (nearest & ((1 << 62) - 1)))  # of the fraction plus a half
    is_below = rest < 1 << 61
    size = select(is_below, (1 << 61) - rest, rest - (1 << 61))
    fraction = converted(size, FLOAT32) * float(np.float32(np.pi * 2.0**-63))
    is_small = m <= QUARTER
    r = select(is_small, m, select(is_below, -fraction, fraction))
    return select(is_small, literal(0, UINT32), converted(nearest >> 62, UINT32)), named("r", r)


def _waves(r: Expression) -> tuple[Expression, Expression]:
    """Return the sine and the cosine of r up to pi / 4."""
    s = named("s", r * r)
    return r + (r * s) * polynomial(s, SINE), 1 - (s * 0.5 - (s * s) * polynomial(s, COSINE))


def _wave(x: Expression, quadrants: int) -> Expression:
    """Return sin(|x| + quadrants pi / 2); NaN for infinity."""
    quadrant, r = _reduced(abs(x))
    sine, cosine = _waves(r)
    at = named("at", quadrant + quadrants)
    value = from_bits(bits(select(equal(at & 1, 0), sine, cosine)) ^ ((at & 2) << 30))
    return select(abs(x) < np.inf, value, x - x)


@function(_quiet(np.sin), ulp=2.75, limits=(-1.0, 1.0), is_wave=True)
def sine(x: Expression) -> Expression:
    """Return sin(x), of which the sign is that of x times that of sin(|x|)."""
    return from_bits(bits(_wave(x, 0)) ^ (bits(x) & 0x80000000))


@function(_quiet(np.cos), ulp=2.75, limits=(-1.0, 1.0), is_wave=True)
def cosine(x: Expression) -> Expression:
    """Return cos(x)."""
    return _wave(x, 1)


@function(_quiet(np.tan), ulp=4.65, is_wave=True)
def tangent(x: Expression) -> Expression:
    """Return tan(x), the quotient of both."""
    quadrant, r = _reduced(abs(x))
    sine, cosine = _waves(r)
    is_even = equal(quadrant & 1, 0)
    quotient = select(is_even, sine, -cosine) / select(is_even, cosine, sine)
    value = select(abs(x) < np.inf, quotient, x - x)
    return from_bits(bits(value) ^ (bits(x) & 0x80000000))
