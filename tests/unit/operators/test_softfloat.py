"""Against numpy's float32, which is IEEE 754 arithmetic by the processor: a third implementation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.operators import softfloat
from tests.support.examples import examples

Array = npt.NDArray[Any]

RNG = np.random.default_rng(11)
EDGES = np.array([0, 1, 2, 3, 2**23 - 1, 2**23, 2**24 - 1, 2**24, 2**24 + 1, 2**24 + 2, 2**24 + 3, 2**31 - 1, 2**31])
INTEGERS = np.concatenate([EDGES, RNG.integers(0, 2**31, 100_000), 1 << RNG.integers(0, 31, 1000)])


def normal_floats(count: int, low: float = -126, high: float = 127) -> Array:
    """Positive normal float32 numbers, uniform in the exponent; every other one with few significand bits."""
    significands = RNG.integers(2**23, 2**24, count)
    significands[::2] &= ~0xFFFF
    return np.ldexp(significands.astype(np.float32), RNG.integers(low, high, count) - 23)


def bits(x: Array) -> Array:
    return x.astype(np.float32).view(np.uint32).astype(np.int64)


def value(magnitude: softfloat.Magnitude) -> Array:
    """Exact as float64: 24 bits and a moderate exponent."""
    return np.ldexp(magnitude.significand.astype(np.float64), magnitude.exponent)


def test_integers_become_float32_with_half_to_even() -> None:
    assert np.array_equal(value(softfloat.from_integer(INTEGERS)), INTEGERS.astype(np.float32))
    assert np.array_equal(value(softfloat.from_integer(-INTEGERS)), INTEGERS.astype(np.float32))


def test_decode_and_encode_are_inverse() -> None:
    x = np.concatenate([normal_floats(10_000), [0.0]]).astype(np.float32)
    negative = RNG.random(len(x)) < 0.5
    magnitude = softfloat.decode(bits(x))
    assert np.array_equal(value(magnitude), x)
    assert softfloat.encode(magnitude, negative).tobytes() == np.where(negative, -x, x).astype(np.float32).tobytes()


def test_decode_reads_subnormal_numbers() -> None:
    x = np.array([1e-45, 1e-40, 1.17549421e-38], np.float32)
    assert np.array_equal(value(softfloat.decode(bits(x))), x)


@pytest.mark.parametrize("exponents", [(-126, 0), (-20, 20), (60, 127)])
def test_products_are_those_of_the_processor_to_the_last_bit(exponents: tuple[int, int]) -> None:
    multiplier = normal_floats(len(INTEGERS), *exponents)
    with np.errstate(over="ignore"):
        expected = INTEGERS.astype(np.float32) * multiplier
    product = softfloat.multiply(softfloat.from_integer(INTEGERS), softfloat.decode(bits(multiplier)))
    assert np.array_equal(softfloat.encode(product, INTEGERS < 0), expected.view(np.uint32))
    assert np.isinf(expected).any() == (exponents == (60, 127))


def test_quotients_are_those_of_the_processor_to_the_last_bit() -> None:
    a, b = normal_floats(200_000, -60, 60), normal_floats(200_000, -60, 60)
    a[:1000] = (a[:1000].astype(np.float64) * b[:1000]).astype(np.float32)  # some exact quotients
    a[1000] = 0
    quotient = softfloat.divide(softfloat.decode(bits(a)), softfloat.decode(bits(b)))
    assert np.array_equal(softfloat.encode(quotient, a < 0), (a / b).view(np.uint32))


# Sums, of bit patterns that meet every case: the sign, the biased exponents' distance, the significands' last bits.

SPECIAL = [0, 1, 2, 0x7FFFFE, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0x3F800000, 0x7F7FFFFE, 0x7F7FFFFF]
FINITE = st.integers(0, 0x7F7FFFFF)
SIGNS = st.sampled_from([0, softfloat.SIGN_BIT])


@st.composite
def neighbouring_terms(draw: st.DrawFn) -> tuple[int, int]:
    """Two numbers with exponents at most 30 apart and few significand bits: ties, cancellation, subnormal sums."""
    exponent = draw(st.integers(0, 254))
    other = draw(st.integers(max(exponent - 30, 0), exponent))
    ends = st.sampled_from([0, 1, 2, 3, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFC, 0x7FFFFD, 0x7FFFFE, 0x7FFFFF])
    fractions = st.one_of(ends, st.integers(0, 0x7FFFFF))
    terms = (exponent << 23 | draw(fractions) | draw(SIGNS), other << 23 | draw(fractions) | draw(SIGNS))
    return terms if draw(st.booleans()) else terms[::-1]


def assert_sums_are_the_processors(a: Array, b: Array) -> Array:
    """Gives the bits of the sums."""
    with np.errstate(over="ignore"):
        expected = a.astype(np.uint32).view(np.float32) + b.astype(np.uint32).view(np.float32)
    sums = softfloat.add(a.astype(np.int64), b.astype(np.int64))
    assert sums.dtype == np.uint32
    assert np.array_equal(sums, expected.view(np.uint32))
    return sums


@pytest.mark.slow
@examples(60)
@given(
    st.lists(
        st.one_of(
            neighbouring_terms(), st.tuples(FINITE, SIGNS, FINITE, SIGNS).map(lambda t: (t[0] | t[1], t[2] | t[3]))
        ),
        min_size=20,
        max_size=60,
    )
)
def test_sums_are_those_of_the_processor_to_the_last_bit(terms: list[tuple[int, int]]) -> None:
    assert_sums_are_the_processors(*np.array(terms).T)


def test_sums_of_special_numbers() -> None:
    signed = np.array([*SPECIAL, *(number | softfloat.SIGN_BIT for number in SPECIAL)])
    sums = assert_sums_are_the_processors(np.repeat(signed, len(signed)), np.tile(signed, len(signed)))
    zero, minus_zero = np.flatnonzero(signed == 0)[0], np.flatnonzero(signed == softfloat.SIGN_BIT)[0]
    table = sums.reshape(len(signed), -1)
    assert table[minus_zero, minus_zero] == softfloat.SIGN_BIT
    assert table[zero, minus_zero] == table[minus_zero, zero] == table[zero, zero] == 0
    assert (np.diag(table, len(SPECIAL)) == 0).all()  # x + -x
    assert softfloat.INFINITY_BITS in sums
    assert softfloat.INFINITY_BITS | softfloat.SIGN_BIT in sums


@pytest.mark.slow
def test_sums_of_random_bits_at_every_distance_of_the_exponents() -> None:
    a, b = RNG.integers(0, 2**32, (2, 400_000))
    distance = RNG.integers(0, 60, len(a))
    moved = np.clip((a >> 23 & 0xFF) - distance, 0, 254) << 23
    near = (b & 0x807FFFFF) | moved
    finite = (a >> 23 & 0xFF) < 255
    assert_sums_are_the_processors(a[finite], near[finite])
    every = finite & ((b >> 23 & 0xFF) < 255)
    sums = assert_sums_are_the_processors(a[every], b[every])
    assert len(np.unique(sums)) > 300_000


def test_sums_that_lie_half_way_go_to_the_even_neighbour() -> None:
    """1 + k * 2**-24 for odd k: every one a tie."""
    odd = np.arange(1, 2001, 2, dtype=np.int64)
    ties = bits(np.ldexp(odd.astype(np.float32), -24))
    sums = assert_sums_are_the_processors(np.full(len(odd), 0x3F800000), ties)
    assert (sums & 1 == 0).all()


def test_sums_broadcast_a_row_of_constants() -> None:
    a, b = normal_floats(12, -10, 10).reshape(4, 3), normal_floats(3, -10, 10)
    assert np.array_equal(softfloat.add(bits(a), bits(b)), (a + b).view(np.uint32))


def test_rounding_to_integers_is_half_to_even_and_saturates_far_beyond_the_codes() -> None:
    halves = np.arange(0, 600, 0.5, np.float32)
    x = np.concatenate([halves, np.nextafter(halves, np.float32(1e9)), normal_floats(100_000, -126, 22)])
    assert np.array_equal(softfloat.round_to_integer(softfloat.decode(bits(x))), np.rint(x))
    huge = softfloat.round_to_integer(softfloat.decode(bits(normal_floats(1000, 23, 127))))
    assert huge.min() >= 2**23


def test_half_way_is_exactly_the_odd_halves() -> None:
    halves = np.arange(0, 600, 0.5, np.float32)
    x = np.concatenate([halves, np.nextafter(halves, np.float32(1e9)), normal_floats(10_000)])
    with np.errstate(over="ignore"):
        expected = x - np.floor(x) == 0.5
    assert np.array_equal(softfloat.is_half_way(softfloat.decode(bits(x))), expected)
    assert expected.sum() >= 600


def test_bit_length_is_pythons() -> None:
    values = np.concatenate([INTEGERS, INTEGERS << 22, (INTEGERS[1:] << 22) - 1])
    assert softfloat.bit_length(values).tolist() == [int(value).bit_length() for value in values]


def any_floats(count: int) -> Array:
    """Numbers of all magnitudes with both signs, a tenth of them zeros, some subnormal."""
    x = RNG.integers(0, 2**32, count, np.uint32).view(np.float32)
    return np.where(np.isfinite(x) & (RNG.random(count) < 0.9), x, np.float32(0)) * RNG.choice(
        np.float32([-1, 1]), count
    )


def test_quotients_are_those_of_the_processor() -> None:
    a, b = any_floats(100_000), any_floats(100_000)
    a[:100], b = np.float32(np.inf), np.where(b == 0, np.float32(3), b)
    with np.errstate(over="ignore", under="ignore"):
        assert np.array_equal(softfloat.quotient(bits(a), bits(b)), (a / b).view(np.uint32))


def exactly(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once, by rational numbers."""
    sums = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    rounded = []
    for exact, zero in zip(sums, a * b + c, strict=True):
        numerator, shift = abs(exact.numerator), exact.denominator.bit_length() - 1  # denominators are powers of two
        drop = max(numerator.bit_length() - 24, shift - 149, 0)
        kept, rest = divmod(numerator, 1 << drop)
        kept += 2 * rest > 1 << drop or (2 * rest == 1 << drop and kept & 1)
        magnitude = (
            np.float32(float(Fraction(kept << drop, 1 << shift))) if kept.bit_length() + drop - shift <= 128 else np.inf
        )
        rounded.append(np.copysign(magnitude, float(zero) if exact == 0 else (-1 if exact < 0 else 1)))
    return np.array(rounded, np.float32)


@pytest.mark.parametrize("kind", ["any", "alike", "cancelling", "near the middle", "subnormal"])
def test_fused_multiply_adds_are_rounded_once(kind: str) -> None:
    a, b, c = (any_floats(3000) for _ in range(3))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if kind == "alike":
            a, b, c = (normal_floats(3000, -3, 3) for _ in range(3))
        elif kind == "cancelling":
            a, b = normal_floats(3000, -40, 40), -normal_floats(3000, -40, 40)
            c = -(a * b) * np.resize(np.float32([1, 1, 1 + 2**-23]), 3000)
        elif kind == "near the middle":
            scale = np.ldexp(np.float32(1), RNG.integers(-30, 30, 3000)).astype(np.float32)
            a, b = np.full(3000, 1 + 2.0**-12, np.float32), np.float32(1 + 2.0**-12) * scale
            c = scale * np.ldexp(normal_floats(3000, 0, 1), RNG.integers(-100, -20, 3000)).astype(np.float32) * a
        elif kind == "subnormal":
            a, b = normal_floats(3000, -80, -60), normal_floats(3000, -80, -60)
            c = RNG.integers(0, 2**24, 3000).astype(np.uint32).view(np.float32) * np.float32(-1)
        expected = exactly(a, b, c)
    found = softfloat.fused(bits(a), bits(b), bits(c)).view(np.float32)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
