"""Regions of a tensor that items compute separately: some channels, or some rows of every channel.

Tensors are flat, (vectors, size), in the order channels, rows, columns.  So a region is one run of values, or runs of
the same length at the same place of every channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from harness.operators.tensor import Tensor

Way: TypeAlias = Literal["channels", "rows"]
"""The axis of the output that is divided: the first or the second one."""
WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True)
class Region:
    """Values `start` to `stop` of each of `runs` runs, into which the values of a tensor are divided evenly."""

    start: int
    stop: int
    runs: int = 1

    @classmethod
    def of(cls, start: int, stop: int, runs: int, size: int) -> Region:
        """Return a region of a tensor of this size; all of it is one run."""
        whole = (start, stop) == (0, size // runs)
        return cls(0, size) if whole else cls(start, stop, runs)

    @property
    def size(self) -> int:
        """The number of values."""
        return (self.stop - self.start) * self.runs

    def indices(self, size: int) -> npt.NDArray[np.intp]:
        """Return the places of the values in a tensor of this size, ascending."""
        return np.arange(size).reshape(self.runs, -1)[:, self.start : self.stop].reshape(-1)

    def has(self, place: int, size: int) -> bool:
        """Return whether a value of a tensor of this size is in the region."""
        return self.start <= place % (size // self.runs) < self.stop

    def meets(self, other: Region) -> bool:
        """Return whether both can have values in common; runs of different numbers always cross."""
        return self.runs != other.runs or (self.start < other.stop and other.start < self.stop)


@dataclass(frozen=True)
class Pieces:
    """The smallest regions into which a tensor can be divided: `count` of `length` values in each of `runs`."""

    count: int
    length: int
    runs: int = 1

    @property
    def size(self) -> int:
        """The number of values of the tensor."""
        return self.count * self.length * self.runs

    def region(self, first: int, last: int) -> Region:
        """Return the region of some pieces that follow each other."""
        return Region.of(first * self.length, last * self.length, self.runs, self.size)

    def compose(self, region: Region) -> bool:
        """Return whether the region consists of whole pieces."""
        aligned = region.start % self.length == 0 and region.stop % self.length == 0
        return aligned and region.runs == self.runs and 0 <= region.start < region.stop <= self.count * self.length


def pieces(shape: Sequence[int], way: Way) -> Pieces | None:
    """Return the channels, or the rows, of a tensor of this shape; None without such an axis."""
    axis = WAYS.index(way)
    if axis >= len(shape):
        return None
    return Pieces(shape[axis], math.prod(shape[axis + 1 :]), math.prod(shape[:axis]))


def span(shape: Sequence[int], region: Region) -> tuple[int, int, int]:
    """Return the axis along which a region of whole channels or rows is a part, the first, and the one after the last.

    Raise ValueError if it consists of neither.
    """
    for axis, way in enumerate(WAYS):
        found = pieces(shape, way)
        if found and found.compose(region):
            return axis, region.start // found.length, region.stop // found.length
    raise ValueError(f"{region} of shape {tuple(shape)} consists neither of channels nor of rows")


def part(tensor: Tensor, region: Region) -> Tensor:
    """Return the tensor that has the channels or rows of a region alone."""
    axis, first, last = span(tensor.shape, region)
    return replace(tensor, shape=(*tensor.shape[:axis], last - first, *tensor.shape[axis + 1 :]))
