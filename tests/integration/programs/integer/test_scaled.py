"""float32(acc) * m without floating point, against this machine's IEEE 754 and against the specification."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Array
from harness.operators import softfloat
from tests.integration.programs.integer.compiled import COMPILERS, HERE, Integer, build, compile_quietly
from tests.support.examples import examples

PAIRS = 20_000_000
LEAST = -(2**31)
SIGN = 1 << 31

ACCUMULATORS = sorted(
    {
        *(0, 1, 2, 3, 5, 2**31 - 1, -(2**31 - 1), LEAST, LEAST + 1),
        *(sign * (2**power + step) for sign in (1, -1) for power in range(2, 31) for step in (-3, -2, -1, 0, 1, 2, 3)),
        # Ties of the first rounding, whose last digit is even or odd, and their neighbours.
        *(
            sign * ((odd << length - 24) + (1 << length - 25) + step)
            for sign in (1, -1)
            for length in range(25, 32)
            for odd in (0x800000, 0x800001, 0xFFFFFE, 0xFFFFFF)
            for step in (-1, 0, 1)
        ),
    }
)
FRACTIONS = (0, 1, 2, 3, 0x200000, 0x3FFFFF, 0x400000, 0x400001, 0x555555, 0x7FFFFE, 0x7FFFFF)
EXPONENTS = (*range(34), *range(94, 160, 3), *range(220, 255))
MULTIPLIERS = [sign | biased << 23 | fraction for sign, biased, fraction in product((0, SIGN), EXPONENTS, FRACTIONS)]


def by_machine(acc: Array, m: Array) -> Array:
    with np.errstate(all="ignore"):
        y: Array = (acc.astype(np.float32) * m.view(np.float32)).view(np.uint32)
    return y


def by_specification(acc: Array, m: Array) -> Array:
    bits = m.astype(np.int64)
    negative = (acc < 0) != (bits >> 31 == 1)
    factors = softfloat.from_integer(acc.astype(np.int64)), softfloat.decode(bits & 0x7FFFFFFF)
    made: Array = softfloat.encode(softfloat.multiply(*factors), negative)
    return made


def corners() -> tuple[Array, Array]:
    """Every corner of the accumulators with every corner of the multipliers."""
    acc, m = np.meshgrid(np.array(ACCUMULATORS, np.int32), np.array(MULTIPLIERS, np.uint32))
    return acc.ravel().copy(), m.ravel().copy()


def is_right(integer: Integer) -> bool:
    acc, m = corners()
    return np.array_equal(integer.scaled(acc, m), by_machine(acc, m))


@pytest.fixture(scope="module")
def integer(tmp_path_factory: pytest.TempPathFactory) -> Integer:
    return build(tmp_path_factory.mktemp("integer"))


@pytest.mark.parametrize("name", COMPILERS)
def test_the_corners_are_those_of_ieee_754(name: str, tmp_path: Path) -> None:
    assert is_right(build(tmp_path, COMPILERS[name]))


def test_the_corners_have_every_kind_of_product() -> None:
    acc, m = corners()
    y = by_machine(acc, m)
    assert {0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000} <= set((y & 0x7FFFFFFF).tolist())
    assert {SIGN, SIGN | 0x7F800000} <= set(y.tolist())
    rounded = acc.astype(np.float32).astype(np.int64)
    assert LEAST in acc
    assert (rounded > acc).any()
    assert (rounded < acc).any()


def test_products_of_normal_numbers_are_those_of_the_specification(integer: Integer) -> None:
    acc, m = corners()
    magnitudes = by_machine(acc, m) & 0x7FFFFFFF
    normal = (magnitudes >= 0x800000) | (acc == 0)
    assert np.array_equal(integer.scaled(acc, m)[normal], by_specification(acc, m)[normal])


@given(st.integers(LEAST, 2**31 - 1), st.integers(0, 2**32 - 1).filter(lambda bits: bits >> 23 & 255 != 255))
@examples(500)
def test_any_product_is_that_of_ieee_754(integer: Integer, acc: int, m: int) -> None:
    one_acc, one_m = np.array([acc], np.int32), np.array([m], np.uint32)
    assert integer.scaled(one_acc, one_m)[0] == by_machine(one_acc, one_m)[0]


def sweep(folder: Path, pairs: int, *flags: str) -> tuple[list[int], str]:
    """What sweep.c counted, and what it and a sanitizer had to say."""
    compile_quietly(folder, [*COMPILERS["gcc"], "-O2", *flags], HERE / "sweep.c", folder / "sweep")
    done = subprocess.run(
        [folder / "sweep", str(pairs), "20261"], capture_output=True, text=True, check=False, timeout=120
    )
    return [int(word) for word in done.stdout.split()], done.stderr


def test_tens_of_millions_of_products_are_those_of_this_machine(tmp_path: Path) -> None:
    (differing, *kinds), said = sweep(tmp_path, PAIRS)
    assert (differing, said) == (0, "")
    assert sum(kinds) == PAIRS
    assert all(count > PAIRS // 100 for count in kinds), kinds


def test_no_undefined_behaviour(tmp_path: Path) -> None:
    (differing, *_), said = sweep(tmp_path, PAIRS // 10, "-fsanitize=undefined", "-fno-sanitize-recover=all")
    assert (differing, said) == (0, "")


MUTANTS = {
    "half up": ("rest > half || (rest == half && (quotient & 1))", "rest >= half"),
    "half down": ("rest > half || (rest == half && (quotient & 1))", "rest > half"),
    "half to odd": ("(quotient & 1)", "!(quotient & 1)"),
    "truncated": ("quotient + (shift && ", "quotient + (0 && "),
    "accumulator not rounded": ("magnitude = shifted_right(magnitude, excess);", ""),
    "accumulator truncated": ("magnitude = shifted_right(magnitude, excess);", "magnitude >>= excess;"),
    "accumulator's exponent lost": ("+ LEAST_EXPONENT + (int32_t)excess", "+ LEAST_EXPONENT"),
    "24th digit as the 25th": ("SIGNIFICAND = 24", "SIGNIFICAND = 23"),
    "subnormals flushed": ("return (uint32_t)significand; /* subnormal", "return 0; /* subnormal"),
    "subnormals as if normal": ("excess > below ? excess : below", "excess"),
    "subnormal multipliers as if normal": ("biased ? fraction | 0x800000u : fraction", "fraction | 0x800000u"),
    "exponent of subnormal multipliers": ("(biased ? biased : 1) - 1", "biased - 1"),
    "no infinity": ("biased >= 255 ? 0x7f800000u :", "biased > 255 ? 0x7f800000u :"),
    "infinity too early": ("biased >= 255 ? 0x7f800000u :", "biased >= 254 ? 0x7f800000u :"),
    "sign of a zero": (": sign;", ": 0;"),
    "sign of the multiplier": ("(m ^ (acc < 0 ? 0x80000000u : 0))", "(acc < 0 ? 0x80000000u : 0)"),
    "no carry": ("if (significand >> SIGNIFICAND) {", "if (0) {"),
    "carry's exponent": ("        exponent += 1;\n", ""),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, tmp_path: Path) -> None:
    mutant = build(tmp_path, [*COMPILERS["gcc"], "-w"], {"scaled.h": MUTANTS[name]})
    assert not is_right(mutant)
