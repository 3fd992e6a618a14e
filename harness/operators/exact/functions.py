"""Elementary functions of one float32, each by float32 operations in a stated order; a NaN gives a NaN.

The coefficients minimise the largest relative error and are rounded one after the other
(tests/campaigns/functions/coefficients.py).  `ulp` is at least the largest distance from the real
function that was measured; tests/campaigns/functions/test_definitions.py measures it for all inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from harness.operators.exact.expression import (
    Expression,
    bits,
    equal,
    from_bits,
    function,
    is_nan,
    larger,
    named,
    select,
)

SIGN = 0x80000000
BOUND, MINUS_ONE_BOUND = 104.5, 24.0  # beyond it exp is 0 or infinity, and exp - 1 is -1
ROUNDER = float.fromhex("0x1.8p+23")  # an ulp of it is 1
ROUNDER_BITS = 0x4B400000
LOG2E, LN2_HIGH, LN2_LOW = (float.fromhex(digits) for digits in ("0x1.715476p+0", "0x1.62e4p-1", "0x1.7f7d1cp-20"))


def coefficients(*digits: str) -> list[float]:
    """Return the coefficients of a polynomial, the highest power first."""
    return [float.fromhex(number) for number in reversed(digits)]


EXPONENTIAL = coefficients("0x1.fffffcp-2", "0x1.55548cp-3", "0x1.555858p-5", "0x1.123dep-7", "0x1.6ac74ep-10")
TANH = coefficients("-0x1.555532p-2", "0x1.1106f6p-3", "-0x1.b835a4p-5", "0x1.51f8cep-6", "-0x1.750ce4p-8")
LOGARITHM = coefficients("0x1.555554p-1", "0x1.999c26p-2", "0x1.23d3ep-2", "0x1.f13b22p-3")
ERROR = coefficients(
    "0x1.06eba6p-3", "-0x1.8126e8p-2", "0x1.ce1ab4p-4", "-0x1.b68e66p-6", "0x1.474a0ep-8", "-0x1.3a48e2p-11"
)
COMPLEMENT = coefficients(
    "-0x1.037d4cp-9", "-0x1.1ead68p+0", "-0x1.4d6fd4p-1", "-0x1.73d946p-4", "0x1.fb05fep-7", "-0x1.4492060000000p-10"
)
ROOT_OF_HALF_BITS = 0x3F3504F3
LEAST_NORMAL_BITS = 0x00800000


def polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Return the polynomial by Horner's scheme, the highest power first."""
    first, second, *others = coefficients
    return reduce(lambda total, number: total * x + number, others, first * x + second)


class _Parts(NamedTuple):
    """exp(v) = 2^n (1 + r + q); `biased` is n + 254, uint32."""

    r: Expression
    q: Expression
    biased: Expression


def _parts(v: Expression) -> _Parts:
    """Return n = round_half_even(v / ln 2), r = v - n ln 2 and q = exp(r) - 1 - r with the rounding error of r."""
    t = named("t", v * LOG2E + ROUNDER)
    n = named("n", t - ROUNDER)
    a = named("a", v - n * LN2_HIGH)  # exact
    b = named("b", n * LN2_LOW)
    r = named("r", a - b)
    q = named("q", ((a - r) - b) + (r * r) * polynomial(r, EXPONENTIAL))
    return _Parts(r, q, named("biased", bits(t) - (ROUNDER_BITS - 254)))


def clamped(x: Expression, low: float, high: float) -> Expression:
    """Return x between two bounds; NaN stays."""
    above = select(x < low, low, x)
    return select(above > high, high, above)


def within(x: Expression, bound: float) -> Expression:
    """Return x between -bound and bound; NaN stays."""
    return clamped(x, -bound, bound)


@function(np.exp, ulp=0.78, is_monotone=True)
def exponential(x: Expression) -> Expression:
    """Return exp(x): two factors, as 2^n itself need not be a float32; only the second product can be rounded."""
    v = named("v", within(x, BOUND))
    r, q, biased = _parts(v)
    s = named("s", 1 + r)
    d = (1 - s) + r  # the rounding error of s, exact
    half = named("half", biased >> 1)
    return ((s + (d + q)) * from_bits(half << 23)) * from_bits((biased - half) << 23)


@function(np.expm1, ulp=0.92, is_monotone=True)
def exponential_minus_one(x: Expression) -> Expression:
    """Return exp(x) - 1 for x of at most 0: (r + q) 2^n + (2^n - 1), without cancellation."""
    v = named("v", select(x < -MINUS_ONE_BOUND, -MINUS_ONE_BOUND, x))
    r, q, biased = _parts(v)
    power = named("power", from_bits((biased - 127) << 23))
    return (r + q) * power + (power - 1)


@function(np.tanh, ulp=1.35, is_monotone=True)
def hyperbolic_tangent(x: Expression) -> Expression:
    """Return tanh(x), of which the sign is that of x: a polynomial below 0.625, and 1 - 2 / (exp(2x) + 1)."""
    m = named("m", abs(x))
    s = named("s", m * m)
    small = m + (m * s) * polynomial(s, TANH)
    large = 1 - 2 / (exponential(m + m) + 1)
    return from_bits(bits(select(m < 0.625, small, large)) | (bits(x) & SIGN))


@function(lambda x: 1 / (1 + np.exp(-x)), ulp=1.68, limits=(0.0, 1.0), difference=2.0**-22)
def logistic(x: Expression) -> Expression:
    """Return 1 / (1 + exp(-x)) by e = exp(-|x|); the quotient is corrected where 1 + e is rounded.

    ONNX Runtime 1.31 is up to 1.79e-7 away, also where the function is near 0, and gives 0 below -18.
    """
    e = named("e", exponential(-abs(x)))
    y = named("quotient", select(x < 0, e, 1.0) / (1 + e))
    return select(x < -1.0625, e - e * y, y)


def _logarithm(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.log(x)


@function(_logarithm, ulp=0.9)
def logarithm(x: Expression) -> Expression:
    """Return the natural logarithm: k ln 2 + log(1 + f), x = 2^k (1 + f), by 2 atanh(s) with s = f / (2 + f).

    -infinity for 0, NaN for a number below 0.
    """
    is_small = bits(x) < LEAST_NORMAL_BITS
    normal = named("normal", bits(select(is_small, x * 2.0**23, x)))
    shifted = named("shifted", normal - ROOT_OF_HALF_BITS)  # 1 + f is from the root of 1/2 to that of 2
    # The exponent, by way of a sum that holds it in its last bits: no conversion of integers.
    exponent = from_bits(((shifted + (127 << 23)) >> 23) + ROUNDER_BITS)
    k = named("k", exponent - (ROUNDER + 127.0) - select(is_small, 23.0, 0.0))
    f = named("f", from_bits((shifted & 0x007FFFFF) + ROOT_OF_HALF_BITS) - 1)
    s = named("s", f / (2 + f))
    z = named("z", s * s)
    square = named("square", (f * f) * 0.5)
    rest = named("rest", z * polynomial(z, LOGARITHM))
    finite = k * LN2_HIGH - ((square - (s * (square + rest) + k * LN2_LOW)) - f)
    at_end = select(equal(x, 0), -np.inf, select(x < 0, np.nan, x + x))
    return select((x > 0) & (x < np.inf), finite, at_end)


@function(np.log1p, ulp=1.3)
def logarithm_of_one_plus(x: Expression) -> Expression:
    """Return log(1 + x) for x from 0 to 1: log(y) + (x - (y - 1)) / y, y = 1 + x, which is rounded."""
    y = named("sum", 1 + x)
    return logarithm(y) + (x - (y - 1)) / y


def _error(x: Any) -> Any:
    from scipy import special  # slow to import, and for faults alone

    return special.erf(x)


@function(_error, ulp=1.6)
def error_function(x: Expression) -> Expression:
    """Return erf(x), of which the sign is that of x: a polynomial below 0.921875, else 1 - exp(polynomial)."""
    m = named("m", abs(x))
    s = named("s", m * m)
    small = m + m * polynomial(s, ERROR)
    v = named("limited", select(m > 4, 4.0, m))
    large = 1 - exponential(polynomial(v, COMPLEMENT))
    return from_bits(bits(select(m < 0.921875, small, select(is_nan(x), x, large))) | (bits(x) & SIGN))


def softplus(x: Expression) -> Expression:
    """Return log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))."""
    return larger(x, 0) + logarithm_of_one_plus(exponential(-abs(x)))
