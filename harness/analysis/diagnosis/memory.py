"""Mistakes of memory: a cache, a counter, scratch memory that something else uses too; and neighbours that are equal.

Their predictions are taken from the values that were found, so each is believed only if these would hardly fit by
chance: `BITS` is the least information that must fit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from harness.analysis.diagnosis.layer_sample import Case
from harness.core.arrays import Array
from harness.operators.fault_models import FaultModel
from harness.operators.tensor import integer_limits
from harness.operators.traits import Trait

BITS = 64
ROWS = 2048  # differing vectors that are looked at, as in hypothesis_scoring.py
ONSET = 16  # vectors before and after the first one that a counter spoils
SPOILT = 3 / 4  # of the vectors that a counter spoils, and of which the error shows
PERIODS = tuple(2**power for power in range(1, 13))
RUNS = (2, 3, 4)  # equal neighbours
AGAIN = "every vector is computed from its own inputs"
ALWAYS = "every vector is computed alike, whenever it comes"

CACHE = "it gives the result of an earlier vector: a cache whose key does not tell all inputs apart"
BEFORE = "it gives the result of the vector before: scratch memory, or a buffer, that is not written anew"
OTHER_VECTOR = "it gives the result of another vector of the block: scratch memory that several vectors use"
OTHER_ITEM = "it takes the sums of another item's columns: scratch memory that both items use"
FROM_THEN_ON = "right up to one vector, wrong from then on: a counter or an index that is full"
AGAIN_AND_AGAIN = "wrong at regular intervals: a counter or an index that wraps around"
EQUAL = "wrong exactly where neighbouring {} are equal"


def mistakes(case: Case) -> Iterator[FaultModel]:
    """Yield the mistakes for all vectors of a case; the causes depend on its layer and its plan alone."""
    yield from _of_other_vectors(case)
    if case.layer.sums and len(case.starts) > 1:
        yield FaultModel(OTHER_ITEM, AGAIN, _sums_of_another_item(case))
    yield from _counters(case)
    yield from _equal_neighbours(case)


def _of_other_vectors(case: Case) -> Iterator[FaultModel]:
    found = _Sources(case)
    before = found.before()
    if case.block != 1:  # or else it is the vector one block earlier, see layout.py
        yield FaultModel(BEFORE, AGAIN, found.replaced(before))
    cached = found.cached() if len(before) < len(found.wrong) else before[:0]
    yield FaultModel(CACHE, AGAIN, found.replaced(cached))
    yield FaultModel(OTHER_VECTOR, AGAIN, found.replaced(found.of_the_block()))


class _Sources:
    """The other vector whose right result each differing vector shows."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.wrong = np.flatnonzero(case.differing.any(axis=1))[:ROWS]
        both = np.concatenate([case.expected, case.actual])
        _, groups = np.unique(_as_rows(both), return_inverse=True)
        self.expected, self.actual = np.split(groups.reshape(-1), 2)
        self.order = np.argsort(self.expected, kind="stable")
        self.sorted = self.expected[self.order]
        self.inputs = np.concatenate([values.view(np.uint8) for values in case.inputs], axis=1)

    def replaced(self, rows: Array) -> Array:
        """Return the right output, but for these vectors the found one."""
        output = self.case.expected.copy()
        output[rows] = self.case.actual[rows]
        return output

    def before(self) -> Array:
        """Return the differing vectors with the result of the vector before, if these are evidence enough."""
        rows = self.wrong[self.wrong > 0]
        rows = rows[(self.actual[rows] == self.expected[rows - 1]) | (self.actual[rows] == self.actual[rows - 1])]
        return self._believed(rows, np.ones(len(rows)))

    def cached(self) -> Array:
        """Return those with an earlier result, whose vectors lie at several distances before them."""
        pairs = [(v, u) for v in self.wrong for u in self._most_alike(v, self._with_result_of(v))]
        if len({v - u for v, u in pairs}) < 2:
            return self.wrong[:0]
        rows, sources = (np.array(each) for each in zip(*pairs, strict=True))
        key = (self.inputs[rows] == self.inputs[sources]).all(axis=0)
        return self._believed(rows, rows.astype(float), self._key_bits(key) * len(rows) - len(key))

    def of_the_block(self) -> Array:
        """Return those with the result of another vector of their block, some of them of a later one."""
        if self.case.block == 1:
            return self.wrong[:0]
        block = self.case.block
        pairs = [
            (v, u[0])
            for v in self.wrong
            if len(u := self._with_result_of(v)) and len(u := u[(u // block == v // block) & (u != v)])
        ]
        if not any(u > v for v, u in pairs) or len({v - u for v, u in pairs}) < 2:
            return self.wrong[:0]
        rows = np.array([v for v, _ in pairs])
        return self._believed(rows, np.full(len(rows), min(block, len(self.expected))))

    def _with_result_of(self, vector: int) -> Array:
        """Return all vectors whose expected output is the actual one of `vector`."""
        first, last = np.searchsorted(self.sorted, [self.actual[vector], self.actual[vector] + 1])
        found: Array = self.order[first:last]
        return found

    def _most_alike(self, vector: int, found: Array) -> Array:
        """Return the earlier one of these whose inputs are most like those of `vector`; empty without one."""
        found = found[found < vector]
        if not len(found):
            return found
        alike = (self.inputs[found] == self.inputs[vector]).sum(axis=1)
        return found[[np.flatnonzero(alike == alike.max())[-1]]]

    def _key_bits(self, key: Array) -> float:
        """Return how unlikely it is that two vectors agree by chance in these bytes of their inputs."""
        if not key.any():
            return 0
        values = _as_rows(np.ascontiguousarray(self.inputs[:, key]))
        _, counts = np.unique(values, return_counts=True)
        return -math.log2(float(np.sum((counts / len(values)) ** 2)))

    def _believed(self, rows: Array, candidates: Array, more_bits: float = 0) -> Array:
        """Return the rows if their results are unlikely to be found by chance among `candidates` candidates each."""
        bits = _bits(self.case, rows) - np.log2(np.maximum(candidates, 1))
        return rows if bits.sum() + max(more_bits, 0) >= BITS else rows[:0]


def _bits(case: Case, rows: Array) -> Array:
    """Return how much the outputs of these vectors say, of columns that are half dependent on each other."""
    bits = np.zeros(len(rows))
    for expected, actual in zip(case.expected.T, case.actual[rows].T, strict=True):
        values, counts = np.unique(expected, return_counts=True)
        at = np.minimum(np.searchsorted(values, actual), len(values) - 1)
        known = values[at] == actual
        bits -= np.log2(np.where(known, counts[at], 1) / len(expected)) / 2
    return bits


def _as_rows(values: Array) -> Array:
    """Return each vector as one value."""
    rows: Array = np.ascontiguousarray(values).view(f"V{values.itemsize * values.shape[1]}").reshape(-1)
    return rows


def _sums_of_another_item(case: Case) -> Array:
    """Return what the items give that finish sums which the items of other columns have put in their place.

    While one item works on a vector the other moves on by one at most: the sums are of three neighbouring vectors.
    """
    output, bits = case.expected.copy(), 0.0
    layer = case.layer.sums
    assert layer is not None  # noqa: S101 - the caller has asked whether it accumulates
    acc, finish = layer.accumulate()(*case.inputs), layer.finish()
    bounds = [*case.starts, layer.size]
    parts = [np.arange(*ends) for ends in itertools.pairwise(bounds)]
    wrong = np.flatnonzero(case.differing.any(axis=1))[:ROWS]
    for own in parts:
        for other in parts:
            if own is other:
                continue
            width = min(len(own), len(other))
            taken = acc.copy()
            taken[:, own[:width]] = acc[:, other[:width]]
            outputs = finish(taken)[:, own[:width]]
            for v in wrong:
                columns = np.flatnonzero(case.differing[v, own[:width]])
                first = v // case.block * case.block
                block = outputs[first : first + case.block, columns] == case.actual[v, own[columns]]
                near = block.copy()
                near[1:] |= block[:-1]
                near[:-1] |= block[1:]
                if len(columns) and near.all(axis=1).any():
                    output[v, own[columns]] = case.actual[v, own[columns]]
                    shares = (case.expected[:, own[columns]] == case.actual[v, own[columns]]).mean(axis=0)
                    surprise = -np.log2(np.clip(3 * shares, 3 / len(acc), 1)).sum() - math.log2(len(block))
                    bits += max(float(surprise), 0)
    return output if bits >= BITS else case.expected


def _counters(case: Case) -> Iterator[FaultModel]:
    wrong = np.asarray(case.differing.any(axis=1))
    for cause, rows in ((FROM_THEN_ON, _onset(wrong)), (AGAIN_AND_AGAIN, _regular(wrong))):
        output = np.where(rows[:, None], case.actual, case.expected)
        yield FaultModel(cause, ALWAYS, output, ONSET if cause == FROM_THEN_ON else 1)


def _onset(wrong: Array) -> Array:
    """Return the vectors from the first wrong one on, if most of them are wrong; else none."""
    first = int(wrong.argmax())
    after_onset = np.arange(len(wrong)) >= first
    enough = first >= ONSET and after_onset.sum() >= ONSET and wrong[after_onset].mean() >= SPOILT
    return after_onset & enough


def _regular(wrong: Array) -> Array:
    """Return the vectors of those places in the shortest period at which most are wrong; none without a period."""
    found = np.flatnonzero(wrong)
    distance = int(np.gcd.reduce(np.diff(found))) if len(found) > 2 else 0
    places = np.arange(len(wrong))
    for period in sorted({*PERIODS, distance}):
        if period < 2 or len(wrong) < 3 * period:
            continue
        counts, of_wrong = np.bincount(places % period), np.bincount(places[wrong] % period, minlength=period)
        spoilt = of_wrong > 0
        share = spoilt.mean()
        if share <= 1 / 2 and (of_wrong[spoilt] >= SPOILT * counts[spoilt]).all() and _is_sure(len(found), share):
            chosen: Array = spoilt[places % period]
            return chosen
    return np.zeros_like(wrong)


def _is_sure(values: int, share: float) -> bool:
    """Return whether all these values are unlikely to lie by chance within this share of the places."""
    return 0 < share < 1 and -values * math.log2(share) >= BITS / 2


def _equal_neighbours(case: Case) -> Iterator[FaultModel]:
    layer = case.layer
    if layer.sums:
        acc = layer.sums.accumulate()(*case.inputs)
        yield _where(case, EQUAL.format("accumulators"), _elementwise(case, [acc]))
    places = _elementwise(case, case.inputs) if Trait.ELEMENTWISE in layer.traits else _in_a_row(case, case.inputs[0])
    yield _where(case, EQUAL.format("inputs"), places)


def _where(case: Case, cause: str, places: Array) -> FaultModel:
    return FaultModel(cause, "neighbours do not matter", np.where(places, case.actual, case.expected))


def _elementwise(case: Case, sources: list[Array] | tuple[Array, ...]) -> Array:
    """Return the differing values, if each column that has some differs exactly where it equals a neighbour."""
    candidates = []
    for values in sources:
        right = np.zeros(values.shape, bool)
        right[:, :-1] = values[:, :-1] == values[:, 1:]
        left = np.roll(right, 1, axis=1)
        candidates += [right, left, right | left]
    return _exactly(case, [[places[:, column] for places in candidates] for column in range(case.layer.size)])


def _in_a_row(case: Case, inputs: Array) -> Array:
    """Return the differing values, if each column that has some differs exactly where certain inputs are equal."""
    candidates = []
    for length in RUNS:
        same = inputs[:, :-1] == inputs[:, 1:]
        count = inputs.shape[1] - length + 1
        if count > 0:
            runs = np.all([same[:, i : i + count] for i in range(length - 1)], axis=0)
            candidates += [runs.any(axis=1), *runs.T]
    return _exactly(case, [candidates] * case.layer.size)


def _exactly(case: Case, candidates: list[list[Array]]) -> Array:
    """Return the differing values if one of a column's candidates, bool (vectors,), says where; else none.

    Where an activation is at an end of its range an error may not show.
    """
    none = np.zeros_like(case.differing)
    ends = none
    if case.expected.dtype.itemsize == 1:
        ends = np.isin(case.expected, integer_limits(case.expected.dtype))
    for column in np.flatnonzero(case.differing.any(axis=0)):
        wrong, hidden = case.differing[:, column], ends[:, column]
        if not any(
            not (wrong & ~places).any() and not (places & ~wrong & ~hidden).any() for places in candidates[column]
        ):
            return none
    share = case.differing[:, case.differing.any(axis=0)].mean() if case.own else 0
    return case.differing if _is_sure(case.own, float(share)) else none
