"""Coverage counters: the share of a layer's reachable values that the vectors of a run exercised.

Reachable is what a layer reaches for any input.  The layers before it may never give it all of these inputs, so a share
below 1 can be all that is possible in the network.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.softfloat import Integers
from harness.operators.tensor import Tensor

Marks: TypeAlias = npt.NDArray[np.bool_]
FindTies: TypeAlias = Callable[..., tuple[Array, npt.NDArray[np.bool_]]]
"""Function from these inputs to the output and to the ties among its values, bool (vectors, size) or (vectors, 1)."""
DEFAULT_BOX = (-1.0, 1.0)
"""Bounds of an input for which neither the model nor its first layer states bounds."""

VALUES = 256
"""Number of values of uint8 and of int8."""


class Quantity(enum.StrEnum):
    """A counted quantity; `met` and `reachable` count every distinct element once."""

    ACCUMULATORS = "accumulators"
    """(column, accumulator), of all integers within `accumulator_bounds`."""
    CODES = "codes"
    """(column, code) that the layer writes."""
    CODES_READ = "codes_read"
    """(column, code) that DequantizeLinear reads, of all of their type."""
    TIES = "ties"
    """(column, boundary between two codes) of which v was exactly half way."""
    SATURATED_LOW = "saturated_low"
    """Columns where the code would be below the lowest one, were it not clamped."""
    SATURATED_HIGH = "saturated_high"
    """Columns where the code would be above the highest one, were it not clamped."""
    CHOSEN = "chosen"
    """Columns that ArgMax or ArgMin chose."""
    CHOSEN_OF_EQUALS = "chosen_of_equals"
    """Columns that ArgMax or ArgMin chose although another had the same value."""
    NETWORK_SELECTED = "network_selected"
    """HybridSelect took the network's advisory; this and the following ones are met or not."""
    SAFETY_NET_SELECTED = "safety_net_selected"
    """HybridSelect took the safety net's advisory."""
    NOT_FINITE = "not_finite"
    """An input was NaN or infinite."""
    OUTSIDE_DOMAIN = "outside_domain"
    """An input was outside the domain."""
    UNSAFE_BOX = "unsafe_box"
    """The input was in a box that is not safe."""
    STALE = "stale"
    """The input was too old."""


@dataclass(frozen=True)
class Met:
    """The number of distinct elements that were met, that are reachable, and of the activations that met them."""

    met: int
    reachable: int
    activations: int

    def __add__(self, other: Met) -> Met:
        """Return the sums over two layers."""
        return Met(self.met + other.met, self.reachable + other.reachable, self.activations + other.activations)

    @property
    def percent(self) -> str:
        """The share of the reachable elements that were met: see `percent`."""
        return percent(self.met, self.reachable)


def percent(part: int, whole: int) -> str:
    """Return the percentage with one decimal, rounded down, so that only the whole gives 100.0 %."""
    return f"{1000 * part // whole / 10 if whole else 100.0:.1f} %"


LayerCoverage: TypeAlias = Mapping[Quantity, Met]
"""The quantities that apply to the layer's operator."""


class Counter(ABC):
    """Count for one layer; `bits` is the size of its map of accumulators, `reachable` what it can round to."""

    bits = 0
    reachable: RoundingCounter | None = None

    @abstractmethod
    def add(self, *values: Array) -> None:
        """Count a block: the layer's inputs and its output, (n, size) each."""

    @abstractmethod
    def result(self) -> LayerCoverage:
        """Return the counts so far."""

    def by_column(self, output: Array) -> Array:
        """Return outputs (n, size), all of a vector side by side, as rows (n * places, N) of the N columns of a map."""
        return output


class NoCounter(Counter):
    """Counter of an operator whose reachable values cannot be listed, such as a float32 sum."""

    def add(self, *values: Array) -> None:
        """Count nothing."""

    def result(self) -> LayerCoverage:
        """Return nothing."""
        return {}


@dataclass(frozen=True, eq=False)
class Stimuli:
    """The ability of a layer to say which inputs matter, and what its vectors exercise.

    `counter` returns the coverage counter, with a map of accumulators if that fits into so many bits; `find_ties` the
    function from inputs to the output and to whether each value was rounded half way between two codes, None if it
    rounds to no codes.  The others are for layers that read the input of the network: `boundaries` returns sorted
    float32 inputs around which the output changes, and those exactly half way; `representable` bounds of an input that
    reach every output and one step more, for lack of a stated box, and None for all values of its type.  A layer that
    `checks_input` finds inputs that are NaN, infinite or out of bounds: the vectors of a run then have them, too.

    It `takes_every_input` if ONNX Runtime, the specification and every board agree on NaN and infinities too; others
    read only finite inputs of the network.  IEEE 754 leaves sign and payload of a computed NaN open: ONNX Runtime 1.31
    gives those of NaN + NaN and NaN * NaN by the place of the value (measured on x86-64).
    """

    counter: Callable[[int], Counter] = lambda _: NoCounter()
    find_ties: Callable[[], FindTies] | None = None
    boundaries: Callable[[], tuple[Array, Array]] = lambda: (np.empty(0, np.float32), np.empty(0, np.float32))
    representable: Callable[[], tuple[float, float] | None] = lambda: None
    checks_input: bool = False
    takes_every_input: bool = False


class AccumulatorCounter:
    """A bit for every integer from low[n] to high[n] of every column n."""

    def __init__(self, low: Integers, high: Integers) -> None:
        sizes = high - low + 1
        self.reachable, self._activations = int(sizes.sum()), 0
        self._first_bit = np.cumsum(sizes) - sizes - low
        self._bits = np.zeros(-(-self.reachable // 8), np.uint8)

    def add(self, acc: Integers) -> None:
        """Mark accumulators, (n, N)."""
        self._activations += acc.size
        position = (acc + self._first_bit).ravel()
        byte, bit = position >> 3, np.left_shift(np.uint8(1), (position & 7).astype(np.uint8))
        new = np.flatnonzero(self._bits[byte] & bit == 0)  # soon few, and `at` is slow
        np.bitwise_or.at(self._bits, byte[new], bit[new])

    def result(self) -> Met:
        """Return the number of marked accumulators."""
        return Met(int(np.bitwise_count(self._bits).sum()), self.reachable, self._activations)


class RoundingCounter:
    """Counter of the codes q = saturate(round_half_even(v) + zero_point) that were met, for v of float32 (n, N)."""

    def __init__(self, output: Tensor, zero_point: int) -> None:
        codes = np.iinfo(output.dtype)
        self._lowest, self._highest = (np.float32(code - zero_point) for code in (codes.min, codes.max))
        self._unclamped = np.zeros((output.size, 1 + VALUES + 1), np.bool_)  # both ends are beyond all codes
        self._ties = np.zeros((output.size, VALUES - 1), np.bool_)
        self._activations = self._tied = self._low = self._high = 0

    def add(self, v: Array) -> None:
        """Count a block."""
        self._activations += v.size
        rounded = np.rint(v)
        self._low += count(rounded < self._lowest)
        self._high += count(rounded > self._highest)
        unclamped = np.clip(rounded, self._lowest - 1, self._highest + 1) - (self._lowest - 1)
        mark(self._unclamped, unclamped.astype(np.intp))
        self._add_ties(v, rounded)

    def _add_ties(self, v: Array, rounded: Array) -> None:
        with np.errstate(invalid="ignore"):  # infinity - infinity
            place = np.flatnonzero(np.abs(v - rounded) == 0.5)
        below, column = np.floor(v.take(place)) - self._lowest, place % v.shape[1]
        between_codes = (below >= 0) & (below < VALUES - 1)
        self._tied += count(between_codes)
        self._ties[column[between_codes], below[between_codes].astype(np.intp)] = True

    @property
    def codes(self) -> Marks:
        """The codes that were met, bool (N, 256) from the lowest on."""
        codes = self._unclamped[:, 1:-1].copy()
        codes[:, 0] |= self._unclamped[:, 0]
        codes[:, -1] |= self._unclamped[:, -1]
        return codes

    def result_of(self, reachable: RoundingCounter) -> LayerCoverage:
        """Return the counts; `reachable` was computed from every v at which the result changes."""
        rows = (
            (Quantity.CODES, self.codes, reachable.codes, self._activations),
            (Quantity.TIES, self._ties, reachable._ties, self._tied),
            (Quantity.SATURATED_LOW, self._unclamped[:, 0], reachable._unclamped[:, 0], self._low),
            (Quantity.SATURATED_HIGH, self._unclamped[:, -1], reachable._unclamped[:, -1], self._high),
        )
        return {quantity: Met(count(met), count(of), activations) for quantity, met, of, activations in rows}


def mark(table: Marks, index: Array) -> None:
    """Mark table[n, index[..., n]]."""
    columns, entries = table.shape
    table.reshape(-1)[index + np.arange(0, columns * entries, entries)] = True


def count(values: Array) -> int:
    """Return how many are true or not zero."""
    return int(np.count_nonzero(values))
