"""The observed values of a layer, held against every known mistake."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from harness.analysis.compare import Difference, difference_map
from harness.analysis.diagnosis import layout, memory
from harness.analysis.diagnosis.findings import Diagnosis, Hypothesis, Observation
from harness.analysis.diagnosis.layer_sample import Case
from harness.core.arrays import Array
from harness.operators import exact, sum_orders
from harness.operators.contraction import Contraction
from harness.operators.fault_models import FaultModel, Single
from harness.operators.traits import Trait

VECTORS_LOOKED_AT = 2048
PLACED_ROWS = 32  # vectors whose terms are in memory together
PLACED_TERMS, PLACED_ADDITIONS = 1 << 31, 1 << 20  # of all sums, and of one, at all places that are tried
SOME_COLUMNS = 16  # values that must fit, as the columns are taken from what was found


@np.errstate(all="ignore")  # mistakes overflow
def diagnose(case: Case, more: Iterable[FaultModel] = (), only: Collection[str] | None = None) -> Diagnosis:
    """Try every known mistake on the differing vectors and on the same number of others, which can contradict it.

    `more` are further mistakes, with outputs for all vectors of the case.  `only` names the causes that are tried.
    """
    rows = _rows(case.differing)
    further = (mistake._replace(output=mistake.output[rows]) for mistake in more)
    mistakes: Iterable[FaultModel] = itertools.chain(further, _mistakes(case, rows))
    if only is not None:
        mistakes = _selected(mistakes, only)
    return _judge(case, rows, mistakes, case.layer.rounded.before(*_at(case.inputs, rows)))


def _selected(mistakes: Iterable[FaultModel], causes: Collection[str]) -> Iterator[FaultModel]:
    """Yield the mistakes with these causes; the others behind the last of them are not computed."""
    missing = set(causes)
    for mistake in mistakes if missing else ():
        if mistake.cause in missing:
            missing.remove(mistake.cause)
            yield mistake
        if not missing:
            return


@np.errstate(all="ignore")
def diagnose_finish(index: int, layer: Contraction, acc: Array, expected: Array, actual: Array) -> Diagnosis:
    """Diagnose the steps after the sum alone: accumulators int64 (n, N) and outputs (n, N).

    The examples name the row in place of a vector.
    """
    case = Case(index, layer, (), expected, actual)
    rows = _rows(case.differing)
    v = layer.sums_before_rounding(acc[rows])
    mistakes = _and_in_some_columns(case, rows, layer.fault_models_of_sums(acc[rows]))
    return _judge(case, rows, mistakes, v)


def _rows(differing: Array) -> Array:
    bad = differing.any(axis=1)
    return np.concatenate([np.flatnonzero(bad)[:VECTORS_LOOKED_AT], np.flatnonzero(~bad)[:VECTORS_LOOKED_AT]])


def _at(inputs: Iterable[Array], rows: Array) -> tuple[Array, ...]:
    return tuple(values[rows] for values in inputs)


def _mistakes(case: Case, rows: Array) -> Iterator[FaultModel]:
    known: Iterable[FaultModel] = case.layer.fault_models(*_at(case.inputs, rows))
    if case.layer.streaming.steps > 1:  # rows that do not follow each other are no stream
        known = (
            fault_model._replace(output=fault_model.output[rows])
            for fault_model in case.layer.fault_models(*case.inputs)
        )
    yield from known if Trait.INDEX in case.layer.traits else _and_in_some_columns(case, rows, known)
    yield from _at_one_place(case, rows)
    for mistake in layout.mistakes(case):
        yield mistake._replace(output=mistake.output[rows])
    for mistake in memory.mistakes(case):
        yield mistake._replace(output=mistake.output[rows], fallback=2)


def _and_in_some_columns(case: Case, rows: Array, mistakes: Iterable[FaultModel]) -> Iterator[FaultModel]:
    """Yield each mistake, and the same in the last columns or positions alone, or in those alone that differ anywhere.

    The latter are the right output where the mistake changes no other column, so that they are not named besides.
    """
    expected = case.expected[rows]
    columns = np.asarray(case.differing.any(axis=0))
    place, positions = np.arange(len(columns)), math.prod(case.layer.output.shape[1:])
    last = {"columns": place >= columns.argmax()}
    if 1 < positions < len(columns):
        last["positions of each channel"] = place % positions >= (place % positions)[columns].min(initial=positions)
    parts = [*((f"the last {name}", places, 1) for name, places in last.items()), ("some columns", columns, 2)]
    for mistake in mistakes:
        yield mistake
        differs = np.asarray(difference_map(expected, mistake.output).any(axis=0))
        for name, places, fallback in parts:
            output = np.where(places, mistake.output, expected) if differs[~places].any() else expected
            cause = f"{mistake.cause}, in {name} only"
            yield FaultModel(cause, mistake.right, output, SOME_COLUMNS, fallback)


def _at_one_place(case: Case, rows: Array) -> Iterator[FaultModel]:
    """Yield faults at one place of a sum, at that which explains most values of the first rows."""
    few = rows[:PLACED_ROWS]
    for fault in sum_orders.placed_faults(case.layer, _at(case.inputs, few)):
        if not fault.places:
            continue
        tried = min(PLACED_TERMS // (fault.places * case.layer.size * len(few)), PLACED_ADDITIONS // fault.places)
        places, half = range(fault.places), max(tried // 2, 8)
        matches = {
            place: np.count_nonzero(~difference_map(fault.output(place), case.actual[few]))
            for place in (*places[:half], *places[half:][-half:])
        }
        best = max(matches, key=matches.__getitem__)
        outputs = []
        for part in np.array_split(rows, -(-len(rows) // PLACED_ROWS)):
            again = {other.cause: other for other in sum_orders.placed_faults(case.layer, _at(case.inputs, part))}
            outputs.append(again[fault.cause].output(best))
        yield FaultModel(fault.cause, fault.right, np.concatenate(outputs), SOME_COLUMNS, fallback=1)


def _judge(case: Case, rows: Array, mistakes: Iterable[FaultModel], v: Single | None) -> Diagnosis:
    seen = _observe(case.expected[rows], case.actual[rows], case.differing[rows], v)
    hypotheses = tuple(_hypothesis(case, rows, mistake) for mistake in mistakes)
    return Diagnosis(case.index, case.layer.rounded.noun, case.own, seen, hypotheses)


def _hypothesis(case: Case, rows: Array, mistake: FaultModel) -> Hypothesis:
    wrong = difference_map(mistake.output, case.actual[rows])
    explained = case.differing[rows] & ~wrong
    return Hypothesis(
        mistake.cause,
        mistake.right,
        _count(explained),
        _count(wrong),
        mistake.least,
        _example(case, rows, explained),
        mistake.fallback,
    )


def _example(case: Case, rows: Array, explained: Array) -> Difference | None:
    if not explained.any():
        return None
    row, unit = divmod(int(explained.argmax()), explained.shape[1])
    vector = int(rows[row])
    expected, actual = case.expected[vector, unit].item(), case.actual[vector, unit].item()
    return Difference(case.start + vector, unit, expected, actual)


def _observe(expected: Array, actual: Array, differing: Array, v: Single | None) -> Observation:
    step = np.where(differing, steps(expected, actual), 0)
    tie = np.zeros_like(differing) if v is None else is_tie(v)
    outward = np.zeros_like(step) if v is None else step * np.sign(v)
    return Observation(
        values=expected.size,
        differing=_count(differing),
        ties=_count(tie),
        differing_ties=_count(differing & tie),
        away=_count(outward > 0),
        toward=_count(outward < 0),
        up=_count(step > 0),
        down=_count(step < 0),
        largest_step=int(np.abs(step).max(initial=0)),
    )


def _count(condition: Array) -> int:
    return int(np.count_nonzero(condition))


def steps(expected: Array, actual: Array) -> Array:
    """Return actual - expected, int64, in units of the type; of a float32 in units in the last place."""
    if expected.dtype == np.float32:
        return exact.ordered(actual) - exact.ordered(expected)
    difference: Array = actual.astype(np.int64) - expected.astype(np.int64)
    return difference


def is_tie(v: Single) -> Array:
    """Return whether the finite v is exactly half way between two integers."""
    tie: Array = v - np.floor(v) == np.float32(0.5)
    return tie
