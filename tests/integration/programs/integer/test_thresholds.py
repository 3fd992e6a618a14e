"""The count of thresholds that are not above x, and the order of all float32 as integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Array
from tests.integration.programs.integer.compiled import COMPILERS, Integer, build
from tests.support.examples import examples

THRESHOLDS = 255
LEAST, GREATEST = -(2**31), 2**31 - 1
INFINITY = 0x7F800000
SIGN = 1 << 31


def tables() -> list[Array]:
    """Non-decreasing thresholds of all kinds, (255,) int32 each."""
    rng = np.random.default_rng(3)
    ramp = np.arange(THRESHOLDS)
    sentinels = np.full(THRESHOLDS, GREATEST)
    made = [
        ramp,
        ramp * 16_000_000 - 2_000_000_000,
        ramp // 7,  # each code but a few is skipped
        np.zeros(THRESHOLDS),
        np.full(THRESHOLDS, LEAST),
        sentinels,
        np.where(ramp < 100, ramp - 50, sentinels),
        np.where(ramp < 254, LEAST, sentinels),
        np.where(ramp < 1, LEAST, sentinels),
        np.where(ramp < 128, LEAST, GREATEST - 1),
    ]
    made += [np.sort(rng.integers(LEAST, GREATEST, THRESHOLDS)) for _ in range(5)]
    made += [np.sort(rng.integers(-40, 40, THRESHOLDS)) for _ in range(5)]
    return [table.astype(np.int32) for table in made]


def around(table: Array) -> Array:
    """Every threshold with its neighbours, and the extremes, but INT32_MAX, which no x may be."""
    near = np.concatenate([table.astype(np.int64) + step for step in (-1, 0, 1)])
    x = np.concatenate([near, [LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1]])
    return x[(x >= LEAST) & (x < GREATEST)].astype(np.int32)


def counts_are_right(integer: Integer) -> bool:
    return side_by_side_is_right(integer) and all(
        np.array_equal(integer.counts(table, around(table)), np.searchsorted(table, around(table), "right"))
        for table in tables()
    )


def side_by_side_is_right(integer: Integer) -> bool:
    """Return whether 1 to 16 values have right codes: the lowest is 128; with one table for all, and one for each."""
    every, rng = np.array(tables()), np.random.default_rng(4)
    for lanes in (1, 7, 15, 16, 16):
        own = every[rng.integers(0, len(every), lanes)]
        x = np.array([rng.choice(around(table)) for table in own])
        expected = [np.searchsorted(table, value, "right") for table, value in zip(own, x, strict=True)]
        shared = np.searchsorted(own[0], x, "right")
        for found, counts in ((integer.codes(own, x), expected), (integer.codes(own[0], x), shared)):
            if not np.array_equal(found, (np.array(counts) + 128).astype(np.uint8)):
                return False
    return True


def order_is_right(integer: Integer) -> bool:
    """Whether floats have the order of their numbers, one to one but for the zeros, and NaN the least."""
    magnitudes = [0, 1, 2, 0x7FFFFE, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x7F7FFFFE, 0x7F7FFFFF, INFINITY]
    magnitudes += np.random.default_rng(5).integers(0, INFINITY, 20_000).tolist()
    bits = np.array([sign | magnitude for sign in (0, SIGN) for magnitude in magnitudes], np.uint32)
    nans = np.array([s | INFINITY | f for s in (0, SIGN) for f in (1, 0x3FFFFF, 0x400000, 0x7FFFFF)], np.uint32)
    floats, inverse = np.unique(bits.view(np.float32), return_inverse=True)
    numbers, ranks = np.unique(integer.ordered(bits), return_inverse=True)
    return (
        len(floats) == len(numbers)
        and np.array_equal(inverse, ranks)
        and integer.ordered(nans).tolist() == [LEAST] * len(nans)
        and integer.ordered(np.array([INFINITY, SIGN | INFINITY, 0, SIGN, 1, SIGN | 1], np.uint32)).tolist()
        == [2139095040, -2139095040, 0, 0, 1, -1]
    )


@pytest.fixture(scope="module")
def integer(tmp_path_factory: pytest.TempPathFactory) -> Integer:
    return build(tmp_path_factory.mktemp("integer"))


@pytest.mark.parametrize("name", COMPILERS)
def test_thresholds_are_counted_and_floats_ordered(name: str, tmp_path: Path) -> None:
    built = build(tmp_path, COMPILERS[name])
    assert counts_are_right(built)
    assert order_is_right(built)


@given(st.lists(st.integers(LEAST, GREATEST), min_size=255, max_size=255), st.integers(LEAST, GREATEST - 1))
@examples(100)
def test_any_table_is_counted_as_numpy_counts_it(integer: Integer, table: list[int], x: int) -> None:
    thresholds = np.array(sorted(table), np.int32)
    found = integer.counts(thresholds, np.array([x], np.int32))[0]
    assert found == np.searchsorted(thresholds, x, "right") == sum(t <= x for t in table)


def test_all_256_counts_occur(integer: Integer) -> None:
    thresholds = np.arange(THRESHOLDS, dtype=np.int32)
    x = np.arange(-1, THRESHOLDS, dtype=np.int32)
    assert integer.counts(thresholds, x).tolist() == list(range(256))


MUTANTS = {
    "not the threshold itself": ("<= x ? step : 0", "< x ? step : 0"),
    "the next threshold": ("t[count + step - 1]", "t[count + step - 1 + (count < 100)]"),
    "seven comparisons": (
        "count = 0;\n    for (uint32_t step = 128; step > 0",
        "count = 0;\n    for (uint32_t step = 128; step > 1",
    ),
    "side by side, not the threshold itself": ("<= x[lane] ? step : 0", "< x[lane] ? step : 0"),
    "side by side, seven comparisons": (
        "return;\n    }\n    for (uint32_t step = 128",
        "return;\n    }\n    for (uint32_t step = 64",
    ),
    "side by side, the first table for all": ("t[lane * stride + count[lane]", "t[count[lane]"),
    "side by side, without the lowest code": ("(uint8_t)(low + count[lane])", "(uint8_t)count[lane]"),
    "a few, the first table for all": ("threshold_count(&t[lane * stride]", "threshold_count(&t[0 * stride]"),
    "unsigned": ("t[count + step - 1] <= x", "(uint32_t)t[count + step - 1] <= (uint32_t)x"),
    "negative numbers not reversed": ("bits >> 31 ? -(int32_t)magnitude : (int32_t)magnitude", "(int32_t)bits"),
    "sign lost": ("bits >> 31 ? -(int32_t)magnitude", "0 ? -(int32_t)magnitude"),
    "infinity is no number": ("magnitude > 0x7f800000u", "magnitude >= 0x7f800000u"),
    "NaN above all": ("return INT32_MIN;", "return INT32_MAX;"),
    "negative NaN a number": ("magnitude > 0x7f800000u", "bits > 0x7f800000u && !(bits >> 31)"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, tmp_path: Path) -> None:
    mutant = build(tmp_path, [*COMPILERS["gcc"], "-w"], {"thresholds.h": MUTANTS[name]})
    assert not (counts_are_right(mutant) and order_is_right(mutant))
