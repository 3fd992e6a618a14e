"""Monotone operators as steps: where an output code changes while the input runs through consecutive integers.

A sweep passes the integers start[n], start[n] + 1, ... through column n of a stage.  Its outputs are described by
the first ones and by each change, as rows (column, number of the vector, output): every output of four thousand million
is compared exactly, and a few thousand numbers are transferred.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx

from harness.core.arrays import Array
from harness.operators.softfloat import Integers

if TYPE_CHECKING:
    from harness.operators.base import Layer

Steps = npt.NDArray[np.uint32]

FLOATS = 1 << 32
NEGATIVE = 1 << 31


@dataclass(frozen=True, eq=False)
class Sweep:
    """The integers to sweep, column by column: from start[n] on, count[n] of them; int64 (N,) each."""

    start: Integers
    count: Integers

    @property
    def vectors(self) -> int:
        """The length of the sweep: that of its longest column."""
        return int(self.count.max())

    @property
    def cases(self) -> int:
        """The number of integers."""
        return int(self.count.sum())

    def values(self, vectors: int | None = None) -> npt.NDArray[np.uint32]:
        """Return the integers' low 32 bits, (vectors, N); by default all, a shorter column running on."""
        first = self.start.astype(np.uint32)
        return first + np.arange(self.vectors if vectors is None else vectors, dtype=np.uint32)[:, None]

    def first(self, vectors: int) -> Sweep:
        """Return the sweep's first vectors, at most this number."""
        return Sweep(self.start, np.clip(vectors, 0, self.count))

    def within(self, steps: Steps) -> Steps:
        """Return the steps within the sweep: a shorter column continues beyond its end."""
        kept: Steps = steps[steps[:, 1] < self.count[steps[:, 0]]]
        return kept


@dataclass(frozen=True, eq=False)
class StepFunction:
    """A function of an integer: codes[i] from starts[i] on, up to starts[i + 1]; below the first there is none."""

    starts: Integers
    codes: Array

    def at(self, value: int) -> int:
        """Return the code of one integer."""
        return int(self.codes[np.searchsorted(self.starts, value, side="right") - 1])

    def steps(self, column: int, start: int, count: int) -> Steps:
        """Return the rows of the sweep of this one column."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, start + count))
        rows = np.empty((last - first, 3), np.uint32)
        rows[:, 0] = column
        rows[:, 1] = np.maximum(self.starts[first:last] - start, 0)
        rows[:, 2] = self.codes[first:last].view(np.uint8)
        return rows


@dataclass(frozen=True, eq=False)
class Swept:
    """The rounding of a layer as a function of integers that are few enough to try all.

    The layer has one column for all values that are rounded in the same way.  `sweep` returns all integers that the
    rounding starts from, column by column; `step_functions` the functions of these, one a column, None for a float32
    output.  `isolate` changes its node so that it computes the rounding alone: it returns the inputs of a model with
    this node, and the function from uint32 (n, N) bits of the sweep to the values of these inputs.
    """

    layer: Layer
    sweep: Callable[[], Sweep]
    step_functions: Callable[[], Sequence[StepFunction] | None]
    isolate: Callable[[onnx.NodeProto], tuple[list[onnx.ValueInfoProto], Callable[[Array], dict[str, Array]]]]


def expected(staircases: Sequence[StepFunction], sweep: Sweep) -> Steps:
    """Return the rows of a sweep of the functions given, one for each column, in the order of the vectors."""
    columns = zip(staircases, sweep.start.tolist(), sweep.count.tolist(), strict=True)
    rows = np.concatenate([stairs.steps(column, *span) for column, (stairs, *span) in enumerate(columns)])
    return sweep.within(rows[np.lexsort((rows[:, 0], rows[:, 1]))])


def of_thresholds(thresholds: Integers, first: int, dtype: np.dtype[Any]) -> StepFunction:
    """Return the function that counts the thresholds (255,) that an integer from `first` on reaches."""
    starts = np.unique(np.append(thresholds, first))
    return merged(starts, np.searchsorted(thresholds, starts, side="right"), dtype)


def merged(starts: Integers, counts: Integers, dtype: np.dtype[Any]) -> StepFunction:
    """Return codes QMIN + counts from `starts` on, without the starts at which nothing changes."""
    codes = (counts + np.iinfo(dtype).min).astype(dtype)
    changes = np.append(True, codes[1:] != codes[:-1])
    return StepFunction(starts[changes], codes[changes])


def float_sweep(columns: int) -> Sweep:
    """Return every float32 through one of the columns; the last column takes the rest."""
    start = np.minimum(np.arange(columns, dtype=np.int64) * -(-FLOATS // columns), FLOATS)
    return Sweep(start, np.diff(np.append(start, FLOATS)))


def of_outputs(outputs: Array) -> Steps:
    """Return the rows of a whole sweep's outputs (vectors, N), of one byte each."""
    codes = outputs.view(np.uint8)
    vectors, columns = np.nonzero(codes[1:] != codes[:-1])
    vectors = np.concatenate([np.zeros(codes.shape[1], np.int64), vectors + 1])
    columns = np.concatenate([np.arange(codes.shape[1]), columns])
    return np.stack([columns, vectors, codes[vectors, columns]], axis=1).astype(np.uint32)


def first_difference(wanted: Steps, found: Steps) -> tuple[int, int] | None:
    """Return column and number of the vector at which the outputs differ first; None where they are the same."""
    if np.array_equal(wanted, found):
        return None
    length = min(len(wanted), len(found))
    rows = np.flatnonzero((wanted[:length] != found[:length]).any(axis=1))
    row = int(rows[0]) if len(rows) else length
    candidates = [tuple(steps[row, [1, 0]].tolist()) for steps in (wanted, found) if row < len(steps)]
    vector, column = min(candidates)
    return column, vector
