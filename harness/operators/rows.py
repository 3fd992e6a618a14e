"""Base class of operators that fold values along axes of a vector, such as ReduceSum and LogSoftmax."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.operators.base import Constants
from harness.operators.exact.stages import Axis, Source, Stage
from harness.operators.staged import Staged
from harness.operators.tensor import FLOAT32

Axes = tuple[Axis, ...]


@dataclass(frozen=True, eq=False)
class Rows(Staged):
    """A layer that folds along `axes`, the numbers of axes of a vector from 0 on, in their order."""

    text = Staged.text.but(summary_of=lambda layer: (f"{layer.count} values",))

    axes: tuple[int, ...]

    @abstractmethod
    def folded(self, x: Source, kept: Axes, over: Axes) -> Stage:
        """Return the definition: `x` has all axes, `over` are those along which it folds, `kept` the others."""

    def definition(self) -> Stage:
        """Return the definition for the shape of the input; adjacent axes of a kind are one."""
        return self.folded(*views(self.input.shape, self.axes, self.input.dtype))

    @property
    def count(self) -> int:
        """The number of values of a fold."""
        return math.prod(self.input.shape[axis] for axis in self.axes)

    def constants(self) -> Constants:
        """Return the facts, and the axes."""
        sizes = [1 if axis in self.axes else size for axis, size in enumerate(self.input.shape)]
        return {**self.text.facts(), "axes": np.array([self.input.shape, sizes], np.int32)}


def views(shape: tuple[int, ...], folded: tuple[int, ...], dtype: np.dtype[Any] = FLOAT32) -> tuple[Source, Axes, Axes]:
    """Return the input `x` of this shape with its axes: those that are kept, and those along which a layer folds."""
    names = {True: iter("klmnpqrs"), False: iter("ijabcdefgh")}
    axes: list[tuple[bool, Axis]] = []
    for is_folded, size in _runs(shape, folded):
        axes.append((is_folded, Axis(next(names[is_folded]), size)))
    kept, over = (tuple(axis for is_over, axis in axes if is_over is kind) for kind in (False, True))
    return Source("x", tuple(axis for _, axis in axes), dtype), kept, over


def _runs(shape: tuple[int, ...], folded: tuple[int, ...]) -> Iterator[tuple[bool, int]]:
    """Yield whether adjacent axes are folded, and the number of their values."""
    numbers = [axis for axis, size in enumerate(shape) if size > 1]
    runs = [(key, math.prod(shape[axis] for axis in run))
            for key, run in itertools.groupby(numbers, lambda axis: axis in folded)]  # fmt: skip
    for is_folded in (False, True):  # both kinds exist, so that a definition has its axes
        if all(key is not is_folded for key, _ in runs):
            runs.append((is_folded, 1))
    yield from runs


EXAMPLE = views((2, 2), (1,))
