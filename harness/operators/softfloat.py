"""Binary32 arithmetic in integers: the roundings of the specification without any floating point.

A magnitude is `significand * 2**exponent`, both int64 arrays; a significand is rounded to 24 bits, half to
even, exactly where IEEE 754 rounds.  Signs are kept apart.  The results of `multiply` are not subnormal: its
smallest factors are a normal multiplier and the integer 1.  Those of `add`, `product`, `quotient` and `fused` can be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

SIGNIFICAND_BITS = 24
SIGN_BIT = 1 << 31
EXPONENT_BIAS = 150  # of a significand that is read as an integer: 127 + 23
INFINITY_BITS = 0x7F800000
NAN_BITS = 0x7FC00000
LEAST_EXPONENT = 1 - EXPONENT_BIAS  # 2**-149 is the smallest number
GUARD_BITS = 26  # after the larger term of a sum: two more than its significand has
PRODUCT_BITS = 48  # of two significands
FUSED_GUARD_BITS = 4  # after the larger term of a fused sum: `bit_length` takes 53 bits


class Magnitude(NamedTuple):
    """significand * 2**exponent, both int64 and of the same shape; a significand is at most 2**24."""

    significand: Integers
    exponent: Integers


def decode(bits: Integers) -> Magnitude:
    """Return the magnitude of the finite binary32 numbers with these bits; the sign bit is ignored."""
    biased = (bits >> 23) & 0xFF
    fraction = bits & 0x7FFFFF
    return Magnitude(np.where(biased > 0, fraction | 1 << 23, fraction), np.maximum(biased, 1) - EXPONENT_BIAS)


def encode(magnitude: Magnitude, negative: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    """Return the bits of sign * magnitude; too large is infinite.

    It is zero, normal with 24 significant bits, or has the least exponent.
    """
    carried = magnitude.significand >> SIGNIFICAND_BITS  # 2**24, where rounding carried
    biased = magnitude.exponent + carried + EXPONENT_BIAS
    finite = (biased << 23) + ((magnitude.significand >> carried) - (1 << 23))
    bits = np.where(biased >= 0xFF, INFINITY_BITS, finite)
    bits = np.where(magnitude.significand == 0, 0, bits)
    signed: Integers = bits | (negative.astype(np.int64) << 31)
    return signed.astype(np.uint32)


def from_integer(value: Integers) -> Magnitude:
    """Return float32(|value|): exact up to 2**24, rounded half to even above."""
    return _round(np.abs(value), np.zeros_like(value))


def multiply(a: Magnitude, b: Magnitude) -> Magnitude:
    """Return float32(a * b): the 48-bit product, rounded half to even to 24 bits."""
    return _round(a.significand * b.significand, a.exponent + b.exponent)


def product(a: Integers, b: Integers) -> npt.NDArray[np.uint32]:
    """Return the bits of float32(a * b), for the bits of binary32 numbers a and b (broadcast).

    An infinity times 0 gives a NaN, whose bits IEEE 754 leaves open; so does a NaN.
    """
    x, y = decode(a), decode(b)
    exact, exponent = x.significand * y.significand, x.exponent + y.exponent
    rounded = _round(exact, exponent, np.clip(LEAST_EXPONENT - exponent, 0, 62))
    negative = (a ^ b) & SIGN_BIT
    magnitudes = a & ~SIGN_BIT, b & ~SIGN_BIT
    larger = np.maximum(*magnitudes)
    undefined = (larger > INFINITY_BITS) | ((larger == INFINITY_BITS) & (np.minimum(*magnitudes) == 0))
    bits: npt.NDArray[np.uint32] = np.where(
        larger == INFINITY_BITS, INFINITY_BITS | negative, encode(rounded, negative != 0)
    )
    return np.where(undefined, NAN_BITS, bits).astype(np.uint32)


def divide(a: Magnitude, b: Magnitude) -> Magnitude:
    """Return float32(a / b) for b > 0, with an unbounded exponent."""
    return _round(*_quotient(a, b))


def quotient(a: Integers, b: Integers) -> npt.NDArray[np.uint32]:
    """Return the bits of float32(a / b), for the bits of binary32 numbers, b finite and not 0 (broadcast)."""
    exact, exponent = _quotient(decode(a), decode(b))
    rounded = _round(exact, exponent, np.clip(LEAST_EXPONENT - exponent, 0, 62))
    negative = (a ^ b) & SIGN_BIT
    bits: npt.NDArray[np.uint32] = np.where(
        a & ~SIGN_BIT == INFINITY_BITS, INFINITY_BITS | negative, encode(rounded, negative != 0)
    )
    return bits.astype(np.uint32)


def _quotient(a: Magnitude, b: Magnitude) -> Magnitude:
    """Return a / b with 26 bits or more, the last of which is set if the quotient has further bits."""
    normalised = SIGNIFICAND_BITS - bit_length(a.significand)
    dividend = a.significand << normalised + 26
    quotient, remainder = np.divmod(dividend, b.significand)
    # The last bit is below the rounding bit, so that it can say "and some more".
    return Magnitude(quotient | (remainder != 0).astype(np.int64), a.exponent - normalised - 26 - b.exponent)


def fused(a: Integers, b: Integers, c: Integers) -> npt.NDArray[np.uint32]:
    """Return the bits of float32(a * b + c), rounded once, for the bits of finite binary32 numbers (broadcast).

    A sum of zero is +0, but for -0 + -0; too large a sum is infinite.
    """
    x, y, z = decode(a), decode(b), decode(c)
    product = _normalised(x.significand * y.significand, x.exponent + y.exponent)
    addend = _normalised(z.significand, z.exponent + np.zeros_like(product.exponent))
    product_is_larger = (addend.significand == 0) | (
        (product.significand != 0)
        & ((product.exponent > addend.exponent)
           | (product.exponent == addend.exponent) & (product.significand >= addend.significand))
    )  # fmt: skip
    sign_of_product, sign_of_addend = (a ^ b) & SIGN_BIT, c & SIGN_BIT
    high = Magnitude(*(np.where(product_is_larger, p, q) for p, q in zip(product, addend, strict=True)))
    low = Magnitude(*(np.where(product_is_larger, q, p) for p, q in zip(product, addend, strict=True)))
    whole = low.significand << FUSED_GUARD_BITS
    shift = np.clip(high.exponent - low.exponent, 0, 62)
    aligned = whole >> shift
    # If bits are shifted out, the sum has 50 bits or more, so that its last bit can be the sticky bit.
    rest = (aligned << shift != whole).astype(np.int64)
    opposite = sign_of_product != sign_of_addend
    sums = (high.significand << FUSED_GUARD_BITS) + np.where(opposite, -aligned - rest, aligned) | rest
    sign = np.where(product_is_larger, sign_of_product, sign_of_addend)
    negative = np.where(sums == 0, sign_of_product & sign_of_addend, sign) != 0
    # Both terms may cancel down to one bit.
    exact, exponent = _normalised(sums, high.exponent - FUSED_GUARD_BITS)
    return encode(_round(exact, exponent, np.clip(LEAST_EXPONENT - exponent, 0, 62)), negative)


def _normalised(significand: Integers, exponent: Integers) -> Magnitude:
    """Return the magnitude with a significand of PRODUCT_BITS or more, or of 0."""
    shift = np.maximum(PRODUCT_BITS - bit_length(significand), 0)
    return Magnitude(significand << shift, exponent - shift)


def add(a: Integers, b: Integers) -> npt.NDArray[np.uint32]:
    """Return the bits of float32(a + b), for the bits of binary32 numbers a and b (broadcast).

    A sum of zero is +0, but for -0 + -0; too large a sum is infinite.  Infinities of both signs give a NaN, whose bits
    IEEE 754 leaves open, and a NaN stays.
    """
    a_is_larger = a & ~SIGN_BIT >= b & ~SIGN_BIT
    larger, smaller = np.where(a_is_larger, a, b), np.where(a_is_larger, b, a)
    high, low = decode(larger), decode(smaller)
    whole = low.significand << GUARD_BITS
    shift = np.minimum(high.exponent - low.exponent, 2 * GUARD_BITS)  # more leaves nothing, too
    aligned = whole >> shift
    # If bits are shifted out, the sum has 49 bits or more, so that its last bit can be the sticky bit.
    rest = (aligned << shift != whole).astype(np.int64)
    sums = (high.significand << GUARD_BITS) + np.where((a ^ b) & SIGN_BIT, -aligned - rest, aligned) | rest
    negative = np.where(sums == 0, a & b, larger) & SIGN_BIT != 0
    exponent = high.exponent - GUARD_BITS
    finite = encode(_round(sums, exponent, np.maximum(LEAST_EXPONENT - exponent, 0)), negative)
    opposite = (smaller & ~SIGN_BIT == INFINITY_BITS) & (larger == smaller ^ SIGN_BIT)
    bits: npt.NDArray[np.uint32] = np.where(larger & ~SIGN_BIT >= INFINITY_BITS, larger, finite)
    return np.where(opposite, NAN_BITS, bits).astype(np.uint32)


def round_to_integer(magnitude: Magnitude) -> Integers:
    """Return round_half_even(magnitude), exact below 2**24 and at least 2**23 above."""
    left = np.clip(magnitude.exponent, 0, 8)
    right = np.clip(-magnitude.exponent, 0, 62)
    return shift_right_half_even(magnitude.significand << left, right)


def is_half_way(magnitude: Magnitude) -> npt.NDArray[np.bool_]:
    """Return whether the magnitude lies exactly half way between two integers: a tie."""
    right = np.clip(-magnitude.exponent, 1, 62)
    halves = (magnitude.significand << 1) >> right
    exact = halves << right == magnitude.significand << 1
    tie: npt.NDArray[np.bool_] = (magnitude.exponent < 0) & exact & (halves & 1 == 1)
    return tie


def shift_right_half_even(value: Integers, shift: Integers) -> Integers:
    """Return round_half_even(value / 2**shift) for 0 <= shift <= 62."""
    floor = value >> shift
    doubled_rest = (value - (floor << shift)) << 1
    unit = np.int64(1) << shift
    up = (doubled_rest > unit) | ((doubled_rest == unit) & (floor & 1 == 1))
    rounded: Integers = floor + up
    return rounded


def bit_length(value: Integers) -> Integers:
    """Return the number of bits of integers from 0 to 2**53; 0 for 0.

    It is read from the exponents of their float64, which hold such integers exactly: nothing is rounded.
    """
    _, exponent = np.frexp(value.astype(np.float64))
    return exponent.astype(np.int64)


def _round(value: Integers, exponent: Integers, least_excess: Integers | int = 0) -> Magnitude:
    """Drop the bits beyond 24, and at least `least_excess`."""
    excess = np.maximum(bit_length(value) - SIGNIFICAND_BITS, least_excess)
    return Magnitude(shift_right_half_even(value, excess), exponent + excess)
