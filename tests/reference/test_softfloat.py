"""Against numpy's float32, which is IEEE 754 arithmetic by the processor: a third implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.reference import softfloat

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
    values = np.concatenate([INTEGERS, INTEGERS << 30])
    assert softfloat.bit_length(values).tolist() == [int(value).bit_length() for value in values]
