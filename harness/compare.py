"""Bit for bit: how many activations of a layer differ, and the first that does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.network import Array


@dataclass(frozen=True)
class Difference:
    """One activation that differs: vector (index within the run), unit (column), both values."""

    vector: int
    unit: int
    expected: float
    actual: float


@dataclass(frozen=True)
class Comparison:
    """The result for one layer."""

    compared: int
    differing: int
    first: Difference | None

    def __add__(self, later: Comparison) -> Comparison:
        """Both results as one; `self` holds the earlier vectors."""
        return Comparison(self.compared + later.compared, self.differing + later.differing, self.first or later.first)


NOTHING = Comparison(0, 0, None)


def compare(expected: Array, actual: Array, start: int = 0) -> Comparison:
    """Compare two (vectors, width) arrays of one type by their bits, so that -0.0 differs from 0.0.

    `start` is the index of the first vector within the run.  ValueError if shapes or types differ.
    """
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        raise ValueError(f"{expected.dtype}{expected.shape} against {actual.dtype}{actual.shape}")
    if same_bytes(expected, actual):
        return Comparison(expected.size, 0, None)
    differing = difference_map(expected, actual)
    vector, unit = (int(index) for index in np.argwhere(differing)[0])
    first = Difference(start + vector, unit, expected[vector, unit].item(), actual[vector, unit].item())
    return Comparison(expected.size, int(differing.sum()), first)


def same_bytes(a: Array, b: Array) -> bool:
    """Whether two C-ordered arrays of one shape and type hold the same bytes."""
    a_bytes, b_bytes = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    words = a_bytes.size // 8 * 8
    return bool(
        np.array_equal(a_bytes[:words].view(np.uint64), b_bytes[:words].view(np.uint64))
        and np.array_equal(a_bytes[words:], b_bytes[words:])
    )


def difference_map(expected: Array, actual: Array) -> Array:
    """Where the bits differ, bool (vectors, width)."""
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    differing: Array = np.ascontiguousarray(expected).view(bits) != np.ascontiguousarray(actual).view(bits)
    return differing
