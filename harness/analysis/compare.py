"""Bit for bit: how many activations of a layer differ, and the first that does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.core.document import SpelledNumber

BLOCK = 1 << 18  # elements compared at a time


@dataclass(frozen=True)
class Difference:
    """One activation that differs: vector (index within the run), unit (column), both values."""

    vector: int
    unit: int
    expected: SpelledNumber
    actual: SpelledNumber


@dataclass(frozen=True)
class Comparison:
    """The result for one layer.

    `differing` activations are not the reference's; `own` are not what the layer's own inputs give, so that the layer
    itself is wrong there.
    """

    compared: int
    differing: int
    first: Difference | None
    own: int = 0

    def __add__(self, later: Comparison) -> Comparison:
        """Return both results as one; `self` holds the earlier vectors."""
        compared, differing = self.compared + later.compared, self.differing + later.differing
        return Comparison(compared, differing, self.first or later.first, self.own + later.own)


NOTHING = Comparison(0, 0, None)


@dataclass(frozen=True)
class Bounded:
    """The values of a bounded layer; `unequal` of them have other bits than the specification.

    `ratio` is the largest |board - specification| / tolerance; it is infinite if a value or its bound is not finite.
    """

    ratio: SpelledNumber
    unequal: int

    def __add__(self, other: Bounded) -> Bounded:
        """Return the result over the vectors of both."""
        return Bounded(max(self.ratio, other.ratio), self.unequal + other.unequal)


def compare(expected: Array, actual: Array, start: int = 0) -> Comparison:
    """Compare two (vectors, width) arrays of one type by their bits, so that -0.0 differs from 0.0.

    `start` is the index of the first vector within the run.  ValueError if shapes or types differ.
    """
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        raise ValueError(f"{expected.dtype}{expected.shape} against {actual.dtype}{actual.shape}")
    differing, first = _count(bits(expected).reshape(-1), bits(actual).reshape(-1))
    if first is None:
        return Comparison(expected.size, 0, None)
    vector, unit = divmod(first, expected.shape[1])
    values = (numbers(array)[vector, unit].item() for array in (expected, actual))
    return Comparison(expected.size, differing, Difference(start + vector, unit, *values))


def numbers(values: Array) -> Array:
    """Return the values as numbers: of bools their bytes, which differ where they are wrong."""
    return np.ascontiguousarray(values).view(np.uint8) if values.dtype == np.bool_ else values


def bits(values: Array) -> Array:
    """Return the values as unsigned integers of their size, in C order."""
    return np.ascontiguousarray(values).view(np.dtype(f"u{values.dtype.itemsize}"))


def _count(expected: Array, actual: Array) -> tuple[int, int | None]:
    """Return the number of differing elements and the index of the first; blocks keep the data in the caches."""
    differing, first = 0, None
    for start in range(0, expected.size, BLOCK):
        block = expected[start : start + BLOCK] != actual[start : start + BLOCK]
        found = int(np.count_nonzero(block))
        if found and first is None:
            first = start + int(block.argmax())
        differing += found
    return differing, first


def difference_map(expected: Array, actual: Array) -> Array:
    """Return where the bits differ, bool (vectors, width)."""
    differing: Array = bits(expected) != bits(actual)
    return differing
