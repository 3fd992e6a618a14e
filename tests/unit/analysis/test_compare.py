"""Bit for bit, on every type that a dump can have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.analysis.compare import BLOCK, NOTHING, Comparison, Difference, compare, difference_map
from harness.core.arrays import Array

DTYPES = ("uint8", "int8", "float32", "int64", "bool")


def floats(*bits: int) -> Array:
    return np.array([bits], np.uint32).view(np.float32)


def test_equal_arrays_have_no_difference() -> None:
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert compare(values, values.copy()) == Comparison(12, 0, None)


def test_the_first_difference_is_the_first_vectors_first_unit() -> None:
    expected = np.arange(12, dtype=np.int8).reshape(3, 4)
    actual = expected.copy()
    actual[2, 0] = -5
    actual[1, 2:] = 100
    assert compare(expected, actual, start=1000) == Comparison(12, 3, Difference(1001, 2, 6, 100))


def test_values_are_reported_as_they_are() -> None:
    found = compare(np.array([[1.5]], np.float32), np.array([[-2.25]], np.float32)).first
    assert found == Difference(0, 0, 1.5, -2.25)
    found = compare(np.array([[2**62 + 1]]), np.array([[2**62]])).first
    assert found == Difference(0, 0, 2**62 + 1, 2**62)


def test_a_bool_of_another_byte_than_1_differs_from_true() -> None:
    wrong = np.array([[1, 0, 255]], np.uint8).view(np.bool_)
    comparison = compare(np.array([[True, False, True]]), wrong)
    assert comparison == Comparison(3, 1, Difference(0, 2, 1, 255))


def test_minus_zero_differs_from_zero() -> None:
    found = compare(floats(0), floats(0x80000000))
    assert (found.compared, found.differing) == (1, 1)


def test_the_same_nan_is_the_same() -> None:
    assert compare(floats(0x7FC00001), floats(0x7FC00001)) == Comparison(1, 0, None)


@pytest.mark.parametrize("other", [0x7FC00001, 0xFFC00000, 0x7F800001])
def test_nans_of_another_payload_or_sign_differ(other: int) -> None:
    found = compare(floats(0x7FC00000, 0), floats(other, 0))
    assert (found.compared, found.differing) == (2, 1)


@given(data=st.data())
def test_what_is_changed_is_counted_and_the_first_is_found(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=9))
    expected = data.draw(hnp.arrays(np.uint8, (*shape, dtype.itemsize))).view(dtype)[..., 0]
    changed = data.draw(hnp.arrays(np.bool_, shape))
    bit = data.draw(st.integers(0, 8 * dtype.itemsize - 1))
    bits = np.ascontiguousarray(expected).view(f"u{dtype.itemsize}")
    actual = np.where(changed, bits ^ bits.dtype.type(1 << bit), bits).view(dtype)
    found = compare(expected, actual, start=5)
    assert (found.compared, found.differing) == (expected.size, changed.sum())
    assert np.array_equal(difference_map(expected, actual), changed)
    assert (found.differing == 0) == (not changed.any())
    if changed.any():
        assert found.first is not None
        assert (found.first.vector - 5, found.first.unit) == tuple(np.argwhere(changed)[0])
    else:
        assert found.first is None


def test_the_layout_in_memory_does_not_matter() -> None:
    expected = np.arange(30, dtype=np.float32).reshape(5, 6)
    actual = np.asfortranarray(expected)
    assert compare(expected, actual) == Comparison(30, 0, None)
    actual[3, 1] = 0
    assert compare(expected, actual) == Comparison(30, 1, Difference(3, 1, 19, 0))
    assert compare(expected[::2, 1::2], expected[::2, 1::2].copy()) == Comparison(9, 0, None)


def test_no_vectors_are_identical() -> None:
    assert compare(np.zeros((0, 5), np.uint8), np.zeros((0, 5), np.uint8)) == Comparison(0, 0, None)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (np.zeros((3, 4), np.int8), r"uint8\(3, 4\) against int8\(3, 4\)"),
        (np.zeros((4, 3), np.uint8), r"uint8\(3, 4\) against uint8\(4, 3\)"),
    ],
)
def test_arrays_that_cannot_be_compared_are_refused(other: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(np.zeros((3, 4), np.uint8), other)


def test_results_add_up_and_keep_the_earliest_difference() -> None:
    early, late = Difference(3, 0, 1, 2), Difference(7, 1, 4, 5)
    a, b, c = Comparison(10, 0, None), Comparison(20, 2, early), Comparison(30, 1, late)
    assert sum([a, b, c], NOTHING) == Comparison(60, 3, early)
    assert a + c == Comparison(40, 1, late)


def test_blocks_are_compared_to_their_last_element() -> None:
    rows = BLOCK // 5 + 7
    expected = np.zeros((rows, 10), np.uint8)
    for index in (0, BLOCK - 1, BLOCK, 2 * BLOCK - 1, expected.size - 1):
        actual = expected.copy()
        actual.reshape(-1)[index] = 1
        assert compare(expected, actual) == Comparison(expected.size, 1, Difference(index // 10, index % 10, 0, 1))
