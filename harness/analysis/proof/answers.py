"""Answers to the obligations of a layer: its stages are called in the deployed program and compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import TypeAlias, TypeVar

import numpy as np

from harness.analysis.compare import difference_map, numbers
from harness.analysis.diagnosis import Diagnosis, diagnose_finish
from harness.analysis.proof.claims import Note, Question, Side
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.execution import dumps
from harness.execution.probe import Probe
from harness.model.network import Network
from harness.operators import sweeps
from harness.operators.base import Layer
from harness.operators.contraction import Contraction
from harness.operators.obligations import Fact, Numbers, Obligation, Outputs, Pairs, ProofStep, Scaled, Shown, Steps
from harness.operators.sweeps import StepFunction, Sweep
from harness.reference import exhaustive, generated
from harness.reference.generated import Generated
from harness.targets import Stage

BYTES_AT_ONCE = 1 << 26
"""Largest number of bytes of outputs in one file on the board."""
Case: TypeAlias = tuple[Array, Array]
"""Inputs of a stage, (n, input width), and its right outputs, (n, output width)."""

VALUES_AT_ONCE = 1 << 13
"""Number of values that the specification computes at once; they fit the first-level cache or nearly, and malloc does
not map their int64 arrays anew each time."""
COMPUTED_AHEAD = 2
"""Number of parts whose right outputs are computed at the same time, ahead of the program."""
T = TypeVar("T")
U = TypeVar("U")


def question(obligation: Obligation, layer: Layer, stage: Stage, probe: Probe | None) -> Question:
    """Return the question to the program that an obligation of `layer` asks."""
    shown, notable, sums = obligation.shown, obligation.notable, layer.sums

    def answer(note: Note) -> str:
        counterexample = _counterexample(shown, stage, probe, note)
        diagnosis = diagnose(notable(), sums, stage, probe) if counterexample and notable and sums and probe else None
        likely = diagnosis.text if diagnosis and diagnosis.complete else ""
        return f"{counterexample}; {likely}" if likely else counterexample

    return Question(
        obligation.step,
        Side.REFERENCE if isinstance(shown, Fact) else Side.BOARD,
        layer.name,
        obligation.statement,
        obligation.method,
        obligation.cases,
        complete=obligation.complete,
        answer=answer,
        unseparated=obligation.unseparated,
    )


def _counterexample(shown: Shown, stage: Stage, probe: Probe | None, note: Note) -> str:
    match shown:
        case Fact():
            return shown.counterexample()
        case Outputs() | Scaled():
            cases = shown.cases() if isinstance(shown, Scaled) else _cases_of(stage, shown)
            found = (_difference(stage, *case, probe, note) for case in _ahead(cases))
            return next(filter(None, found), "")
        case Steps():
            return differing_step(shown.staircases(), shown.sweep, stage, probe, shown.text, note)
        case Numbers():
            return _differing_number(shown, stage, probe, note)
        case Pairs():
            parts = [*generated.pair_vectors(shown.size), *_random_parts(stage, shown)]
            found = (_differing_generated(stage, part, shown.expected, probe, note) for part in parts)
            return next(filter(None, found), "")


def diagnose(inputs: Array, layer: Contraction, stage: Stage, probe: Probe) -> Diagnosis:
    """Return how well the fault models explain the stage's outputs at notable inputs.

    The vectors of a run may miss the few inputs at which a fault shows; these inputs are chosen to show it.
    """
    actual = probe.outputs(stage, inputs.astype(stage.input_dtype))
    return diagnose_finish(0, layer, inputs, layer.finish()(inputs), actual)


def reference_agrees(network: Network, layer: Layer, abandoned: Event) -> Question:
    """Return the question whether ONNX Runtime and the integer specification agree on every rounding of a layer."""
    quantizes = layer.stimuli.takes_every_input

    def confirm(_: Note) -> str:
        exhaustive.confirm(network, layer, abandoned)
        return ""

    return Question(
        ProofStep.QUANTIZATION if quantizes else ProofStep.REQUANTIZATION,
        Side.REFERENCE,
        layer.name,
        f"ONNX Runtime and the integer specification agree on every {'float32' if quantizes else 'accumulator'}",
        "the model's own node computes all of them"
        + ("" if quantizes else ", fed with inputs of which these are the sums"),
        _cases(layer),
        complete=True,
        answer=confirm,
    )


def differing_step(
    staircases: Sequence[StepFunction],
    sweep: Sweep,
    stage: Stage,
    probe: Probe | None,
    text: Callable[[int], str],
    note: Note,
) -> str:
    """Return the first input of a sweep whose code is not that of its column's staircase; `text` shows an input."""
    if probe is None:
        note(dumps.sha256(sweeps.expected(staircases, sweep)))
        return ""
    found, done = probe.steps(stage, sweep)
    different = sweeps.first_difference(sweeps.expected(staircases, done), found)
    if different is None and done.cases < sweep.cases:
        raise BoardError(f"the program ended the sweep of {stage.name} early, without a difference before")
    if different is None:
        note(dumps.sha256(found))
        return ""
    column, vector = different
    value = int(sweep.start[column]) + vector
    first = np.full((1, stage.input_width), value & (sweeps.FLOATS - 1), np.uint32).view(stage.input_dtype)
    alone, wanted = probe.outputs(stage, first)[0, column], staircases[column].at(value)
    becomes = f"{alone}, expected {wanted}" if alone != wanted else f"{wanted}, but within a sweep another code"
    return f"column {column}: {text(value)} becomes {becomes}"


def _differing_number(shown: Numbers, stage: Stage, probe: Probe | None, note: Note) -> str:
    sweep, finish, size = shown.sweep, shown.expected, stage.output_width
    length = max(BYTES_AT_ONCE // (4 * size), 1)

    def part(first: int) -> tuple[int, Sweep, Array, str]:
        step = Sweep(sweep.start + first, np.full_like(sweep.count, min(length, sweep.vectors - first)))
        wanted = _evaluate(lambda acc: finish(acc.astype(np.int64)), step.values().view(np.int32), size)
        return first, step, wanted, dumps.sha256(wanted)

    for first, step, wanted, right in _in_parallel(part, range(0, sweep.vectors, length)):
        if probe and probe.sweep_sha256(stage, step) != right:
            accumulators = step.values().view(np.int32)
            counterexample = _first_number(stage, accumulators, wanted, sweep.count - first, probe)
            if counterexample:
                return counterexample
        note(right)
    return ""


def _first_number(stage: Stage, accumulators: Array, wanted: Array, reachable: Array, probe: Probe) -> str:
    """Describe the first different output whose accumulator can be reached.

    `reachable` counts the reachable values at the start of each column; the rest only fills the column.
    """
    inputs = accumulators.view(stage.input_dtype)
    found = probe.outputs(stage, inputs)
    different = difference_map(wanted, found)
    if not different.any():
        return "the outputs of a sweep changed when they were asked for again"
    vectors, columns = np.nonzero(different & (np.arange(len(wanted))[:, None] < reachable))
    if not len(vectors):
        return ""
    at = vectors[0], columns[0]
    return f"column {at[1]}: {inputs[at]} becomes {found[at]}, expected {wanted[at]}"


def differing_output(
    stage: Stage, inputs: Array, expected: Callable[[Array], Array], probe: Probe | None, note: Note
) -> str:
    """Describe the first of the inputs (n, input width) whose output is not the expected one."""
    cases = _in_parts(stage, inputs, expected)
    return next(filter(None, (_difference(stage, *case, probe, note) for case in cases)), "")


def _cases_of(stage: Stage, shown: Outputs) -> Iterator[Case]:
    for inputs in shown.inputs():
        yield from _in_parts(stage, inputs, shown.expected)


def _in_parts(stage: Stage, inputs: Array, expected: Callable[[Array], Array]) -> Iterator[Case]:
    rows = max(BYTES_AT_ONCE // (inputs.itemsize * inputs.shape[1] + 8 * stage.output_width), 1)
    for start in range(0, len(inputs), rows):
        part = inputs[start : start + rows]
        yield part, _evaluate(expected, part, stage.output_width)


def _ahead(cases: Iterator[Case]) -> Iterator[Case]:
    """Yield the cases; the next one is computed on another thread, while the program has the one before."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, cases, None)
        while (case := following.result()) is not None:
            following = pool.submit(next, cases, None)
            yield case


def _in_parallel(function: Callable[[T], U], given: Iterable[T]) -> Iterator[U]:
    """Yield the function's results in order; the next ones are computed while the program has the one before."""
    with ThreadPoolExecutor(COMPUTED_AHEAD) as pool:
        waiting: deque[Future[U]] = deque()
        for each in given:
            waiting.append(pool.submit(function, each))
            if len(waiting) > COMPUTED_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _difference(stage: Stage, inputs: Array, wanted: Array, probe: Probe | None, note: Note) -> str:
    """Describe the first wrong output of the inputs (n, input width)."""
    wanted = wanted.astype(stage.output_dtype)
    right = dumps.sha256(wanted)
    if probe and probe.outputs_sha256(stage, inputs) != right:
        found = probe.outputs(stage, inputs)
        vectors, columns = np.nonzero(difference_map(wanted, found))
        if not len(vectors):
            return "the outputs changed when they were asked for again"
        at = vectors[0], columns[0]
        values = f"{numbers(found)[at]}, expected {numbers(wanted)[at]}"
        return f"column {at[1]} of inputs {_row(numbers(inputs)[at[0]])}: {values}"
    note(right)
    return ""


def _evaluate(function: Callable[[Array], Array], inputs: Array, width: int) -> Array:
    """Return the function's outputs, (n, width), in blocks: the specification needs 100 bytes for a value."""
    rows = max(VALUES_AT_ONCE // width, 1)
    return np.concatenate([function(inputs[start : start + rows]) for start in range(0, len(inputs), rows)])


def _row(values: Array) -> str:
    """Format a row in full on one line, so that it can be tried again."""
    return f"[{', '.join(map(str, values))}]"


def _random_parts(stage: Stage, shown: Pairs) -> Iterator[Generated]:
    """Yield random vectors in parts, each with its own seed and of a size whose sums fit into a file."""
    at_once = max(BYTES_AT_ONCE // (4 * stage.output_width), 1)
    for seed, first in enumerate(range(0, shown.random_vectors, at_once)):
        yield generated.random_vectors(min(at_once, shown.random_vectors - first), shown.size, seed)


def _differing_generated(
    stage: Stage, vectors: Generated, exact: Callable[[Array], Array], probe: Probe | None, note: Note
) -> str:
    """Return the first wrong sum of generated vectors; they are sent only to find it."""
    rows = vectors.rows(0, vectors.count).view(stage.input_dtype)
    at_once = max(BYTES_AT_ONCE // (8 * vectors.width), 1)
    parts = [exact(rows[first : first + at_once]) for first in range(0, len(rows), at_once)]
    right = dumps.sha256(np.concatenate(parts).astype(stage.output_dtype))
    if probe and probe.generated_sha256(stage, vectors) != right:
        counterexample = differing_output(stage, rows, exact, probe, lambda _: None)
        return counterexample or "the sums of generated vectors changed when they were asked for again"
    note(right)
    return ""


def _cases(layer: Layer) -> int:
    return layer.rounded.swept.sweep().cases if layer.rounded.swept else 0
