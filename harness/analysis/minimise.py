"""The smallest failing vector: as few inputs other than zero as possible, and those as round as possible.

Whether vectors fail is asked in batches, because each question is one execution on a board.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array

Vectors = Array
Fails = Callable[[Vectors], npt.NDArray[np.bool_]]

ALL_SUBSETS = 12  # inputs, of which all subsets are one batch
DIGITS = 9  # enough to distinguish all float32 numbers
QUESTIONS = 60  # at most, so that a slow board is not held for ever


@dataclass(frozen=True, eq=False)
class Minimal:
    """A failing vector, (K,), after `questions` batches; `finished` unless they ran out."""

    vector: Vectors
    questions: int
    finished: bool

    @property
    def inputs(self) -> int:
        """Return the number of inputs that are not zero."""
        return int(np.count_nonzero(self.vector))


class _OutOfQuestionsError(Exception):
    pass


class _Search:
    """The smallest failing vector so far."""

    def __init__(self, vector: Vectors, fails: Fails, questions: int) -> None:
        self.vector = vector
        self.asked = 0
        self._fails = fails
        self._questions = questions

    def take_first_failing(self, candidates: Vectors) -> int | None:
        """Replace the vector by the first candidate, (n, K), that fails, and return its index; None if none does."""
        if self.asked == self._questions:
            raise _OutOfQuestionsError
        self.asked += 1
        failing = np.flatnonzero(self._fails(candidates))
        if not failing.size:
            return None
        self.vector = candidates[failing[0]]
        return int(failing[0])


def minimise(vector: Vectors, fails: Fails, questions: int = QUESTIONS) -> Minimal | None:
    """Shrink `vector`, (K,), while `fails`, (n, K) to bool (n,), is true; None if it is false at the start.

    With up to 12 inputs that are not zero no failing vector has fewer of them, otherwise none can be left out alone.
    """
    search = _Search(vector, fails, questions)
    try:
        if search.take_first_failing(vector[None]) is None:
            return None
        _leave_out_inputs(search)
        _round_inputs(search)
    except _OutOfQuestionsError:
        return Minimal(search.vector, search.asked, finished=False)
    return Minimal(search.vector, search.asked, finished=True)


def _leave_out_inputs(search: _Search) -> None:
    while len(_used(search.vector)) > ALL_SUBSETS:
        if not _leave_out_some(search):
            return
    subsets = _subsets(search.vector)
    if len(subsets):
        search.take_first_failing(subsets)


def _used(vector: Vectors) -> npt.NDArray[np.intp]:
    """Return the inputs that are not zero; NaN counts as not zero."""
    return np.flatnonzero(vector)


def _subsets(vector: Vectors) -> Vectors:
    """Return the vector with every proper subset of its inputs, the others zero, the smallest first."""
    used = _used(vector)
    kept = np.arange((1 << len(used)) - 1)[:, None] >> np.arange(len(used)) & 1
    kept = kept[np.argsort(kept.sum(axis=1), kind="stable")]
    subsets = np.zeros((len(kept), len(vector)), vector.dtype)
    subsets[:, used] = np.where(kept == 1, vector[used], vector.dtype.type(0))
    return subsets


def _leave_out_some(search: _Search) -> bool:
    """Keep one part of the inputs or leave one out, of ever finer parts (delta debugging); False if none can be."""
    used = _used(search.vector)
    parts = 2
    while parts <= len(used):
        pieces = np.array_split(used, parts)
        others = [np.setdiff1d(used, piece) for piece in pieces] if parts > 2 else []
        if search.take_first_failing(np.array([_keep(search.vector, kept) for kept in [*pieces, *others]])) is not None:
            return True
        if parts == len(used):
            return False
        parts = min(2 * parts, len(used))
    return False


def _keep(vector: Vectors, inputs: npt.NDArray[np.intp]) -> Vectors:
    kept = np.zeros_like(vector)
    kept[inputs] = vector[inputs]
    return kept


def _round_inputs(search: _Search) -> None:
    """Round each number that is no integer to as few significant digits as possible, one input after the other."""
    for position in _used(search.vector) if search.vector.dtype.kind == "f" else ():
        rounded = np.array(list(_rounder(search.vector, position)))
        if len(rounded):
            search.take_first_failing(rounded)


def _rounder(vector: Vectors, position: np.intp) -> Iterator[Vectors]:
    """Yield the vector with one input rounded to 1, 2, ... significant digits, as long as that changes it."""
    value = vector[position]
    for digits in range(DIGITS if np.isfinite(value) else 0):
        rounded = vector.copy()
        rounded[position] = vector.dtype.type(f"{value:.{digits}e}")
        if rounded[position] == value:
            return
        yield rounded
