"""The places of the values that an operator moves, and the boxes of the output in which they have steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Places: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Order:
    """The value of the inputs, side by side, at each place of the output: `places`, int32 of its shape.

    A value that no input gives has place -1 and is `filler`.  `steps` are the same places on axes along parts of which
    they rise or fall by the same steps; None if they are a table.  `wrong` has those of faults by their causes.
    """

    places: Places
    steps: Places | None
    filler: Any = None
    wrong: Mapping[str, Places] = field(default_factory=dict)

    def boxes(self, sizes: Sequence[int]) -> list[Copy]:
        """Return the boxes of the output that inputs of these sizes give, of an order that is no table.

        Raises ValueError if they do not have all places: no code is generated from a wrong one.
        """
        assert self.steps is not None  # noqa: S101 - see above
        flat, starts, boxes = self.steps.reshape(-1), np.cumsum([0, *sizes]), list[Copy]()
        ranked = np.argsort(flat, kind="stable")
        parts = itertools.pairwise(np.searchsorted(flat[ranked], starts).tolist())
        for number, (first, end) in enumerate(parts):
            if first < end:
                index = np.unravel_index(ranked[first:end], self.steps.shape)
                begins, extents = [int(at.min()) for at in index], [int(np.ptp(at)) + 1 for at in index]
                boxes += _boxes(self.steps, number, int(starts[number]), begins, extents)
        places = np.full(self.steps.shape, -1)
        for copy in boxes:
            places[copy.box] = starts[copy.number] + copy.place + np.tensordot(copy.steps, np.indices(copy.sizes), 1)
        if not np.array_equal(places.reshape(-1), self.places.reshape(-1)):
            raise ValueError("the places of an order do not follow steps along its axes; state them as a table")
        return boxes


class Copy(NamedTuple):
    """A box of the output, on the axes of `Order.steps`: values of an input from `place` on, by a step on each axis."""

    number: int
    begins: tuple[int, ...]
    sizes: tuple[int, ...]
    place: int
    steps: tuple[int, ...]

    @property
    def box(self) -> tuple[slice, ...]:
        """The part of each axis."""
        return tuple(slice(at, at + size) for at, size in zip(self.begins, self.sizes, strict=True))


def numbered(shape: Sequence[int]) -> Places:
    """Return the place of each value of a tensor, int32 of its shape."""
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


def of_steps(places: Places) -> Order:
    """Return the order of places that rise or fall by the same steps along their axes."""
    return Order(places, places)


def unmoved(shape: Sequence[int]) -> Order:
    """Return the order of values that stay."""
    return Order(numbered(shape), numbered([math.prod(shape)]))


def _boxes(order: Places, number: int, start: int, begins: Sequence[int], extents: Sequence[int]) -> Iterator[Copy]:
    """Yield the parts with one step along each axis of the box of an input whose values begin at `start`."""
    spans = []
    for axis, (begin, extent) in enumerate(zip(begins, extents, strict=True)):
        at = tuple(slice(first, first + (extent if own == axis else 1)) for own, first in enumerate(begins))
        line = order[at].reshape(-1)
        spans.append([(begin + first, size, step) for first, size, step in _spans(line)])
    for parts in itertools.product(*spans):
        firsts, sizes, steps = zip(*parts, strict=True)
        yield Copy(number, firsts, sizes, int(order[firsts]) - start, steps)


def _spans(line: Places) -> Iterator[tuple[int, int, int]]:
    """Yield the begin and the size of each part of a line that has one step, and the step."""
    begin, steps = 0, np.diff(line)
    while begin < len(line):
        step = int(steps[begin]) if begin < len(steps) else 0
        changes = np.flatnonzero(steps[begin:] != step)
        end = begin + 1 + int(changes[0]) if len(changes) else len(line)
        yield begin, end - begin, step
        begin = end
