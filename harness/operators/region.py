"""Regions of a tensor that items compute separately: some channels, or some rows of every channel.

Tensors are flat, (vectors, size), in the order channels, rows, columns.  So a region is one run of values, or runs of
the same length at the same place of every channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from harness.operators.tensor import Tensor

if TYPE_CHECKING:
    from harness.operators.base import Layer

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


@dataclass(frozen=True, eq=False)
class Division:
    """The ability of a layer to be divided: some channels or rows of its output are such a layer too.

    `ways` are the axes along which it can be divided at most.  It is `uniform` if each value is computed alike from
    those at its place, so that any channels or rows are a layer; otherwise a channel is computed from its group of the
    input, one of `groups`.  `channels` is the number of pieces along the channels, where the shape does not say it.
    `fields` returns the fields that differ in the layer of a region, but for its tensors.
    """

    layer: Layer
    ways: Sequence[Way] = ()
    uniform: bool = False
    groups: int = 1
    channels: int = 0
    fields: Callable[[Region], dict[str, Any]] = lambda _: {}

    def pieces(self, way: Way) -> Pieces | None:
        """Return the pieces of the output that several items can compute; None if it cannot be divided in this way."""
        inputs, shape, axis = self.layer.inputs, self.layer.output.shape, WAYS.index(way)
        fits = all(len(tensor.shape) == len(shape) for tensor in inputs)
        fits = fits and all(tensor.shape[axis : axis + 1] in (shape[axis : axis + 1], (1,)) for tensor in inputs)
        if way not in self.ways or (self.uniform and not fits):
            return None
        apart = way == "channels" and self.channels
        return Pieces(self.channels, self.layer.size // self.channels) if apart else pieces(shape, way)

    def divisible(self, region: Region) -> bool:
        """Return whether an item can compute this region of the output: all of it, or whole pieces."""
        divisions = (self.pieces(way) for way in WAYS)
        return region == Region(0, self.layer.size) or any(pieces.compose(region) for pieces in divisions if pieces)

    def needs(self, region: Region) -> tuple[Region, ...]:
        """Return the values of each input that a `divisible` region of the output is computed from."""
        layer, shape = self.layer, self.layer.output.shape
        if region == Region(0, layer.size) or not (self.uniform or self.groups > 1):
            return tuple(Region(0, tensor.size) for tensor in layer.inputs)
        axis, first, last = span(shape, region)
        if not self.uniform:
            width, count = layer.input.size // self.groups, shape[0]
            begin, end = first * self.groups // count, -(-last * self.groups // count)
            return (Region.of(begin * width, end * width, 1, layer.input.size),)
        alike = (pieces(tensor.shape, WAYS[axis]) for tensor in layer.inputs)
        return tuple(
            of_input.region(first, last) if of_input and of_input.count == shape[axis] else Region(0, tensor.size)
            for of_input, tensor in zip(alike, layer.inputs, strict=True)
        )

    def slice(self, region: Region, name: str) -> Layer:
        """Return the layer `name` that computes a `divisible` region of the output from the values that it `needs`."""
        layer = self.layer
        inputs = tuple(part(tensor, need) for tensor, need in zip(layer.inputs, self.needs(region), strict=True))
        return replace(layer, name=name, inputs=inputs, output=part(layer.output, region), **self.fields(region))


UNIFORM = partial(Division, ways=WAYS, uniform=True)
