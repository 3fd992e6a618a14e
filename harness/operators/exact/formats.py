"""Conversions between float32 and other formats of floats, and small integers, by operations on float32 and integers.

A number of these formats is known by its bits, which no target computes with.  A NaN becomes quiet, without payload;
in formats of up to 16 bits, in which it can be a result, it also loses its sign, of which processors have one or the
other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from harness.operators.exact.expression import (
    BITS,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
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
from harness.operators.tensor import SHORT_FLOATS, integer_limits

BIAS, FRACTION = 127, 23
"""The bias of the exponents, and the bits of the fraction, of float32."""
DOUBLE_BIAS, SUBNORMAL_STEP = 896, 149
"""The difference of the biases of float64 and float32, and the exponent of the least float32, negated."""
NAN, INFINITY = 0x7FC00000, 0x7F800000


class Format(NamedTuple):
    """A format of floats: bits of the fraction, bias, and the bits, without sign, of its greatest number and others.

    Without `infinity` or `nan` it has none; with a `nan` that is the sign alone, it has no -0.
    """

    fraction: int
    bias: int
    largest: int
    infinity: int | None = None
    nan: int | None = None
    sign: int = 7

    @property
    def has_minus_zero(self) -> bool:
        """True if zero has two signs."""
        return self.nan != 1 << self.sign

    @property
    def least_normal(self) -> int:
        """The bits of its least normal number as float32."""
        return (1 - self.bias + BIAS) << FRACTION


BFLOAT16, E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0, E2M1 = SHORT_FLOATS
FORMATS: Mapping[np.dtype[Any], Format] = {
    FLOAT16: Format(10, 15, 0x7BFF, 0x7C00, 0x7E00, sign=15),
    BFLOAT16: Format(7, 127, 0x7F7F, 0x7F80, 0x7FC0, sign=15),
    E4M3FN: Format(3, 7, 0x7E, nan=0x7F),
    E4M3FNUZ: Format(3, 8, 0x7F, nan=0x80),
    E5M2: Format(2, 15, 0x7B, 0x7C, 0x7E),
    E5M2FNUZ: Format(2, 16, 0x7F, nan=0x80),
    E2M1: Format(1, 1, 0x7, sign=3),
}


def to_single(x: Expression) -> Expression:
    """Return a number of a format of up to 16 bits as float32."""
    if x.dtype == E8M0:
        return _of_power(x)
    kind, word = FORMATS[x.dtype], converted(bits(x), UINT32)
    size, sign = word & ((1 << kind.sign) - 1), (word & (1 << kind.sign)) << (31 - kind.sign)
    small = bits(converted(size, FLOAT32) * 2.0 ** (1 - kind.bias - kind.fraction))
    normal = (size << (FRACTION - kind.fraction)) + ((BIAS - kind.bias) << FRACTION)
    number = select(size < 1 << kind.fraction, small, normal)
    if kind.infinity is not None:
        special = select(equal(size, kind.infinity), literal(INFINITY, UINT32), literal(NAN, UINT32))
        number = select(size >= kind.infinity, special, number)
    elif kind.nan is not None and kind.has_minus_zero:
        number = select(equal(size, kind.nan), literal(NAN, UINT32), number)
    signed = number | sign
    if kind.nan is not None and not kind.has_minus_zero:
        signed = select(equal(word, kind.nan), literal(NAN, UINT32), signed)
    return from_bits(signed)


def of_single(x: Expression, dtype: np.dtype[Any], *, saturates: bool = False) -> Expression:
    """Return the number of a format of up to 16 bits nearest to a float32, half to even.

    A number beyond the greatest one, and infinity, are the greatest one if it `saturates` or the format has none, else
    infinity or, without one, NaN.
    """
    if dtype == E8M0:
        return _to_power(x, saturates=saturates)
    kind, word = FORMATS[dtype], bits(x)
    size, sign = word & 0x7FFFFFFF, (word >> (31 - kind.sign)) & (1 << kind.sign)
    # Beside this number the last place is the step of subnormal numbers.
    beside = 2.0 ** (1 - kind.bias - kind.fraction + FRACTION)
    low = from_bits(smaller(size, literal(kind.least_normal, UINT32)))
    small = bits(low + beside) - int(np.float32(beside).view(np.uint32))
    places = FRACTION - kind.fraction
    nearest = size + ((1 << (places - 1)) - 1) + ((size >> places) & 1)
    normal = (nearest - ((BIAS - kind.bias) << FRACTION)) >> places
    finite = select(size < kind.least_normal, small, normal)
    beyond = kind.infinity if kind.infinity is not None else kind.nan
    limit = kind.largest if saturates or beyond is None else beyond
    number = select(finite > kind.largest, literal(limit, UINT32), finite)
    if not kind.has_minus_zero:
        sign = select(equal(number & 0x7F, 0), literal(0, UINT32), sign)
    nan = literal(kind.nan or 0, UINT32)
    return from_bits(converted(select(size > INFINITY, nan, number | sign), BITS[dtype]), dtype)


def _of_power(x: Expression) -> Expression:
    """Return a power of two, known by its exponent, as float32."""
    word = converted(bits(x), UINT32)
    normal = select(equal(word, 0), literal(0x00400000, UINT32), word << FRACTION)
    return from_bits(select(equal(word, 0xFF), literal(NAN, UINT32), normal))


def _to_power(x: Expression, *, saturates: bool) -> Expression:
    """Return the least power of two that is no less than |x|; ONNX says nothing of numbers below 0."""
    size = bits(x) & 0x7FFFFFFF
    above = (size + 0x7FFFFF) >> FRACTION
    power = select(size <= 0x00400000, literal(0, UINT32), above)
    number = select(power > 254, literal(254 if saturates else 255, UINT32), power)
    return from_bits(converted(select(size > INFINITY, literal(255, UINT32), number), BITS[E8M0]), E8M0)


def to_integer(x: Expression) -> Expression:
    """Return an integer of 4 or 2 bits as int32."""
    low, high = integer_limits(x.dtype)
    word = converted(bits(x), UINT32) & (high - low)
    return converted(word ^ -low, INT32) + low


def of_integer(x: Expression, dtype: np.dtype[Any]) -> Expression:
    """Return an integer modulo 2^n as one of n bits, 4 or 2."""
    low, high = integer_limits(dtype)
    return from_bits(converted(converted(x, UINT32) & (high - low), BITS[dtype]), dtype)


def to_double(x: Expression) -> Expression:
    """Return a float32 as binary64."""
    word = bits(x)
    size = word & 0x7FFFFFFF
    wide, sign = converted(size, UINT64), converted(word >> 31, UINT64) << 63
    integer = converted(bits(converted(size, FLOAT32)), UINT64)  # of a subnormal number, below 2^23
    small = (integer << 29) + ((DOUBLE_BIAS - SUBNORMAL_STEP) << 52)
    normal = (wide << 29) + (DOUBLE_BIAS << 52)
    special = select(equal(size, INFINITY), _long(0x7FF << 52), _long(0xFFF << 51))
    finite = select(size < 0x800000, select(equal(size, 0), wide, small), normal)
    return from_bits(select(size >= INFINITY, special, finite) | sign, FLOAT64)


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
    special = select(size > 0x7FF << 52, _long(NAN), _long(INFINITY))
    finite = select(size < 0x381 << 52, small, normal)
    return from_bits(converted(select(size >= 0x47F << 52, special, finite), UINT32) | sign)


def odd_of_double(x: Expression) -> Expression:
    """Return a binary64 rounded to odd as float32, and 0 below its normal numbers.

    A float of up to 11 bits, and with a least number above that of float32, is rounded from it as from the binary64.
    """
    word = bits(x)
    size, sign = word & 0x7FFFFFFFFFFFFFFF, converted(word >> 63, UINT32) << 31
    rest = select(equal(size & 0x1FFFFFFF, 0), _long(0), _long(1))
    normal = ((size >> 29) - (DOUBLE_BIAS << 23)) | rest
    special = select(size > 0x7FF << 52, _long(NAN), _long(INFINITY))
    finite = select(size < 0x381 << 52, _long(0), normal)
    return from_bits(converted(select(size >= 0x47F << 52, special, finite), UINT32) | sign)


def _long(value: int) -> Expression:
    return literal(value, UINT64)
