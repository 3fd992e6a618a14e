"""Conversions between float32 and the formats binary16 and binary64, by operations on integers alone.

A number of these formats is known by its bits, which no target computes with.  A NaN becomes quiet, without payload;
in binary16, in which it can be a result, it also loses its sign, of which processors have one or the other.
"""

from __future__ import annotations

from harness.operators.exact.expression import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    UINT16,
    UINT32,
    UINT64,
    Expression,
    bits,
    converted,
    equal,
    from_bits,
    literal,
    select,
    shifted,
    smaller,
)

HALF_BIAS, DOUBLE_BIAS = 112, 896
"""Differences between the bias of float32 and those of binary16 and of float64."""
SUBNORMAL_STEP, HALF_STEP = 149, 24
"""The exponents of the least positive number of float32 and of binary16, negated."""


def of_half(x: Expression) -> Expression:
    """Return a binary16 as float32."""
    word = converted(bits(x), UINT32)
    size, sign = word & 0x7FFF, (word & 0x8000) << 16
    small = bits(converted(size, FLOAT32)) - (HALF_STEP << 23)  # an integer below 2^10, times 2^-24
    normal = (size << 13) + (HALF_BIAS << 23)
    special = select(equal(size, 0x7C00), literal(0x7F800000, UINT32), literal(0x7FC00000, UINT32))
    finite = select(size < 0x400, select(equal(size, 0), size, small), normal)
    return from_bits(select(size >= 0x7C00, special, finite) | sign)


def to_half(x: Expression) -> Expression:
    """Return the binary16 nearest to a float32, half to even; 65520 and more are infinite."""
    word = bits(x)
    size, sign = word & 0x7FFFFFFF, (word >> 16) & 0x8000
    # Beside 0.5 the last place is 2^-24, the step of subnormal numbers.
    small = bits(from_bits(smaller(size, literal(0x38800000, UINT32))) + 0.5) - 0x3F000000
    normal = (size + 0xFFF + ((size >> 13) & 1) - (HALF_BIAS << 23)) >> 13
    finite = select(size < 0x38800000, small, normal)
    number = select(size >= 0x47800000, literal(0x7C00, UINT32), finite) | sign
    return from_bits(converted(select(size > 0x7F800000, literal(0x7E00, UINT32), number), UINT16), FLOAT16)


def to_double(x: Expression) -> Expression:
    """Return a float32 as binary64."""
    word = bits(x)
    size = word & 0x7FFFFFFF
    wide, sign = converted(size, UINT64), converted(word >> 31, UINT64) << 63
    integer = converted(bits(converted(size, FLOAT32)), UINT64)  # of a subnormal number, below 2^23
    small = (integer << 29) + ((DOUBLE_BIAS - SUBNORMAL_STEP) << 52)
    normal = (wide << 29) + (DOUBLE_BIAS << 52)
    special = select(equal(size, 0x7F800000), _long(0x7FF << 52), _long(0xFFF << 51))
    finite = select(size < 0x800000, select(equal(size, 0), wide, small), normal)
    return from_bits(select(size >= 0x7F800000, special, finite) | sign, FLOAT64)


def of_double(x: Expression) -> Expression:
    """Return the float32 nearest to a binary64, half to even."""
    word = bits(x)
    size, sign = word & 0x7FFFFFFFFFFFFFFF, converted(word >> 63, UINT32) << 31
    normal = (size + 0xFFFFFFF + ((size >> 29) & 1) - (DOUBLE_BIAS << 52)) >> 29
    exponent = size >> 52
    significand = (size & 0xFFFFFFFFFFFFF) | select(equal(exponent, 0), _long(0), _long(1 << 52))
    places = smaller(926 - smaller(exponent, _long(896)), _long(63))
    whole = shifted("shift_right", significand, places)
    rest, half = significand - shifted("shift_left", whole, places), shifted("shift_left", _long(1), places - 1)
    is_up = (rest > half) | (equal(rest, half) & equal(whole & 1, 1))
    small = whole + select(is_up, _long(1), _long(0))
    special = select(size > 0x7FF << 52, _long(0x7FC00000), _long(0x7F800000))
    finite = select(size < 0x381 << 52, small, normal)
    return from_bits(converted(select(size >= 0x47F << 52, special, finite), UINT32) | sign)


def _long(value: int) -> Expression:
    return literal(value, UINT64)
