"""Boxes of an operational design domain: intervals of every input, the codes that they reach, and regions of codes.

A box is closed: the interval [a, b] of an input reaches the codes q(a) to q(b), because the normalisation, its rounding
to float32 and QuantizeLinear are monotone, and both ends pass through them.  A code that several intervals reach counts
for all of them.  NaN and infinities are outside every box.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.applications.decide.code_network import CODES, CodeNetwork
from harness.core.errors import RequestError
from harness.model.network import Normalisation
from harness.operators.exact import from_ordered, ordered

Sets = npt.NDArray[np.uint8]
"""Sets of decisions: bit d is set if decision d occurs, or is allowed."""
AnySets = npt.NDArray[np.unsignedinteger[Any]]
"""The same for up to 60 decisions: uint8, or uint64 for more than 8."""


@dataclass(frozen=True)
class Axis:
    """The intervals of one input between ascending `cuts`, in physical units.

    With `wraps` both ends are the same value, such as an angle of -pi and pi: the code of each end then counts for the
    first and the last interval.
    """

    name: str
    unit: str
    cuts: tuple[Fraction, ...]
    wraps: bool = False

    @property
    def intervals(self) -> int:
        """The number of intervals."""
        return len(self.cuts) - 1


@dataclass(frozen=True, eq=False)
class AxisCodes:
    """The codes of one axis: interval j reaches the codes `first[j]` to `last[j]`.

    `segment` is uint16 (256,): the number of the run of codes that the same intervals reach, for every code from `low`
    to `high`; `members` has the intervals of each segment.
    """

    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    segment: npt.NDArray[np.uint16]
    members: tuple[tuple[int, ...], ...]

    @property
    def low(self) -> int:
        """The lowest code."""
        return int(self.first[0])

    @property
    def high(self) -> int:
        """The highest code."""
        return int(self.last[-1])

    @property
    def count(self) -> int:
        """The number of codes."""
        return self.high - self.low + 1


@dataclass(frozen=True, eq=False)
class Partition:
    """All boxes: the products of one interval of each axis."""

    axes: tuple[Axis, ...]
    codes: tuple[AxisCodes, ...]
    normalise: Callable[[int, Fraction], np.float32]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of intervals of each axis."""
        return tuple(axis.intervals for axis in self.axes)

    @property
    def boxes(self) -> int:
        """The number of boxes."""
        return math.prod(self.shape)

    @property
    def code_vectors(self) -> int:
        """The number of code vectors that the boxes reach; each is counted once."""
        return math.prod(codes.count for codes in self.codes)

    @cached_property
    def region_shape(self) -> tuple[int, ...]:
        """The number of segments of each axis."""
        return tuple(len(codes.members) for codes in self.codes)

    def code_boxes(self, box: Sequence[int]) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Return the lowest and highest codes, (axes,) each, of the box with these interval numbers.

        An interval at the end of an axis that wraps also has the code of the other end, so that there are several
        products of runs of codes.
        """
        runs: list[list[tuple[int, int]]] = []
        for axis, codes, j in zip(self.axes, self.codes, box, strict=True):
            own = [(int(codes.first[j]), int(codes.last[j]))]
            for end, other in ((0, codes.high), (axis.intervals - 1, codes.low)):
                if axis.wraps and j == end and not own[0][0] <= other <= own[0][1]:
                    own.append((other, other))
            runs.append(own)
        products = [np.array(each, np.int64).T for each in itertools.product(*runs)]
        return [(low, high) for low, high in products]

    def by_box(self, regions: Sets, axes: Iterable[int]) -> Sets:
        """Return the union of the decisions of each interval's segments, along these axes of `regions`."""
        for axis in axes:
            moved = np.moveaxis(regions, axis, 0)
            boxes = np.zeros((self.shape[axis], *moved.shape[1:]), np.uint8)
            for segment, members in enumerate(self.codes[axis].members):
                for interval in members:
                    boxes[interval] |= moved[segment]
            regions = np.moveaxis(boxes, 0, axis)
        return np.ascontiguousarray(regions)

    def rows(
        self, numbers: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the products of runs of codes of boxes: position in `numbers`, lowest and highest codes (n, axes).

        `numbers` are (m,), in C order of the interval numbers.  A box has several products where an axis wraps.
        """
        intervals = self.intervals(numbers)
        owner = np.arange(len(numbers))
        ends = [
            np.stack([side[index] for side, index in zip(sides, intervals.T, strict=True)], axis=1)
            for sides in ([code.first for code in self.codes], [code.last for code in self.codes])
        ]
        low, high = ends
        for index, (axis, codes) in enumerate(zip(self.axes, self.codes, strict=True)):
            for end, other in ((0, codes.high), (axis.intervals - 1, codes.low)) if axis.wraps else ():
                at_end = intervals[owner, index] == end
                added = np.flatnonzero(at_end & (low[:, index] > other) | at_end & (high[:, index] < other))
                owner, low, high = (np.concatenate([each, each[added]]) for each in (owner, low, high))
                low[len(low) - len(added) :, index] = high[len(high) - len(added) :, index] = other
        return owner, low, high

    def intervals(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the interval numbers, (n, axes), of boxes; any number of axes is valid, unlike numpy's."""
        found = np.empty((len(numbers), len(self.axes)), np.int64)
        for index in reversed(range(len(self.axes))):
            numbers, found[:, index] = np.divmod(numbers, self.axes[index].intervals)
        return found

    def numbers(self, intervals: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        """Return the numbers of boxes, (n,), with these intervals, (n, axes)."""
        found = np.zeros(len(intervals), np.int64)
        for axis, of_axis in zip(self.axes, intervals.T, strict=True):
            found = found * axis.intervals + of_axis
        return found

    def inputs(
        self, boxes: npt.NDArray[np.int64], codes: npt.NDArray[np.uint8], network: CodeNetwork
    ) -> npt.NDArray[np.float32]:
        """Return network inputs, float32 (n, axes), within the boxes of these numbers (n, axes) that have the codes.

        RequestError if a box has no such input.
        """
        pairs = boxes * CODES + codes
        distinct, place = zip(*(np.unique(each, return_inverse=True) for each in pairs.T), strict=True)
        most = max(map(len, distinct))  # each distinct pair of an axis once; shorter columns repeat their last one
        columns = np.stack([np.pad(each, (0, most - len(each)), "edge") for each in distinct], axis=1)
        values = self._distinct_inputs(*np.divmod(columns, CODES), network)
        found: npt.NDArray[np.float32] = values[np.stack(place, axis=1), np.arange(len(self.axes))]
        return found

    def input_of(self, index: int, interval: int, code: int, network: CodeNetwork) -> np.float32:
        """Return an input of axis `index` in this interval that has the code; RequestError if there is none."""
        boxes = np.zeros((1, len(self.axes)), np.int64)
        codes = np.array([each.first[0] for each in self.codes], np.uint8)[None]
        boxes[0, index], codes[0, index] = interval, code
        found: np.float32 = self.inputs(boxes, codes, network)[0, index]
        return found

    def _distinct_inputs(
        self, boxes: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], network: CodeNetwork
    ) -> npt.NDArray[np.float32]:
        ends = np.empty((2, *codes.shape), np.float32)
        for index, (axis, reached) in enumerate(zip(self.axes, self.codes, strict=True)):
            intervals, code = boxes[:, index], codes[:, index]
            numbers = np.unique([intervals, intervals + 1, 0 * intervals, 0 * intervals + axis.intervals])
            cuts = np.zeros(len(axis.cuts), np.float32)
            cuts[numbers] = [self.normalise(index, axis.cuts[number]) for number in numbers]
            ends[:, :, index] = cuts[intervals], cuts[intervals + 1]
            outside = (code < reached.first[intervals]) | (code > reached.last[intervals])
            if axis.wraps and outside.any():  # the same value, at the other end
                ends[:, outside, index] = np.where(intervals[outside] == 0, cuts[-1], cuts[0])
        return _inputs_of_codes(network, codes, ends)


def partition(axes: Sequence[Axis], network: CodeNetwork, normalisation: Normalisation | None) -> Partition:
    """Return the boxes of these axes for the inputs of a network.

    `normalisation` converts physical values to inputs; without one the axes are in the units of the network.
    RequestError for other axes than the network's inputs, and for cuts that do not increase.
    """
    names = normalisation.names if normalisation else tuple(axis.name for axis in axes)
    if [axis.name for axis in axes] != [*names] or len(axes) != network.inputs:
        expected = ", ".join(names) if normalisation else f"{network.inputs} axes"
        raise RequestError(
            f"the property has the axes {', '.join(axis.name for axis in axes)}; "
            f"model {network.name!r} has the inputs {expected}",
            "state the same inputs in the same order",
        )
    for axis in axes:
        if len(axis.cuts) < 2:
            raise RequestError(f"axis {axis.name}: {len(axis.cuts)} cuts", "state two cuts or more")
        for before, after in itertools.pairwise(axis.cuts):
            if before > after or (before == after and axis.intervals > 1):  # one interval may be a single value
                raise RequestError(
                    f"axis {axis.name}: the cuts {float(before):.9g} and {float(after):.9g} do not increase",
                    "state every cut once, in ascending order",
                )

    def normalise(index: int, value: Fraction) -> np.float32:
        if normalisation is not None:
            value = (value - Fraction(normalisation.mean[index])) / Fraction(normalisation.range[index])
        return nearest_float32(value)

    if normalisation is not None and any(span < 0 for span in normalisation.range):
        raise RequestError(f"model {network.name!r}: an input_range is negative", "state positive ranges")
    return Partition(
        tuple(axes), tuple(_axis_codes(network, i, axis, normalise) for i, axis in enumerate(axes)), normalise
    )


def nearest_float32(value: Fraction) -> np.float32:
    """Return the float32 nearest to a rational number, of two the even one; RequestError if it is beyond all."""
    try:
        with np.errstate(over="ignore"):
            near = np.float32(float(value))
    except OverflowError:
        near = np.float32(math.inf)
    if not np.isfinite(near):
        raise RequestError(f"{float(value) if abs(value) < 1e300 else 'a cut'} is no float32", "state smaller cuts")
    candidates = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    finite = [candidate for candidate in candidates if np.isfinite(candidate)]
    nearest: np.float32 = min(
        finite, key=lambda each: (abs(Fraction(float(each)) - value), int(each.view(np.uint32)) & 1)
    )
    return nearest


def _axis_codes(
    network: CodeNetwork, index: int, axis: Axis, normalise: Callable[[int, Fraction], np.float32]
) -> AxisCodes:
    values = np.zeros((len(axis.cuts), network.inputs), np.float32)
    values[:, index] = [normalise(index, cut) for cut in axis.cuts]
    codes = network.codes(values)[:, index].astype(np.int64)
    first, last = codes[:-1], codes[1:]
    members: list[tuple[int, ...]] = []
    segment = np.zeros(CODES, np.uint16)
    for code in range(int(first[0]), int(last[-1]) + 1):
        reaching = set(np.flatnonzero((first <= code) & (code <= last)).tolist())
        if axis.wraps and code in (first[0], last[-1]):
            reaching |= {0, axis.intervals - 1}
        if not members or members[-1] != tuple(sorted(reaching)):
            members.append(tuple(sorted(reaching)))
        segment[code] = len(members) - 1
    return AxisCodes(first, last, segment, tuple(members))


def _inputs_of_codes(
    network: CodeNetwork, codes: npt.NDArray[np.int64], ends: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return float32 inputs between `ends`, (2, n, axes), with these codes, by bisection; RequestError without one."""
    start, stop = ordered(ends)
    while True:
        middle = (start + stop) // 2
        values = from_ordered(middle)
        found = network.codes(values)
        if (found == codes).all():
            return values
        if ((start >= stop) & (found != codes)).any():
            row, index = np.argwhere((start >= stop) & (found != codes))[0]
            low, high = ends[:, row, index]
            raise RequestError(f"input {index} has no value between {low} and {high} with the code {codes[row, index]}")
        start = np.where(found < codes, middle + 1, np.where(found == codes, middle, start))
        stop = np.where(found > codes, middle, np.where(found == codes, middle, stop))
