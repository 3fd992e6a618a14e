"""Steps 2 and 3: QuantizeLinear for every float32, requantisation for every reachable accumulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event

import numpy as np

from harness.analysis.compare import difference_map
from harness.analysis.proof import cause, columns
from harness.analysis.proof.claims import Note, Question, Side, Step
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.execution import dumps
from harness.execution.probe import Probe
from harness.operators import Network, QGemm, QuantizeLinear, accumulator_bounds, specification, steps
from harness.operators.softfloat import INFINITY_BITS
from harness.operators.steps import StepFunction, Sweep
from harness.reference import exhaustive
from harness.targets import Stage

BYTES_AT_ONCE = 1 << 26
"""Of float32 outputs in one file on the board."""
VALUES_AT_ONCE = 1 << 16
"""In the specification's arithmetic: few enough for the second-level cache."""
SPREAD_VALUES = 1 << 22
"""Evenly spread bit patterns, over all columns."""
NEIGHBOURS = 3
"""Floats on either side of every threshold that go through every column."""


def every_float(layer: QuantizeLinear, stage: Stage, probe: Probe | None) -> Question:
    """All 2^32 inputs through the deployed code."""
    sweep = steps.float_sweep(layer.width)
    return Question(
        Step.QUANTIZATION,
        Side.BOARD,
        layer.name,
        "every float32, NaN and infinities included, becomes the code of the specification",
        "all 2^32 bit patterns pass through the deployed code; every place where the code changes is compared",
        sweep.cases,
        complete=True,
        answer=lambda note: differing_step(
            [steps.of_floats(layer)] * layer.width, sweep, stage, probe, _float_text, note
        ),
    )


def thresholds(layer: QuantizeLinear, stage: Stage, probe: Probe | None, *, monotone: bool) -> Question:
    """The inputs where codes change, through every column; `monotone` lets them stand for all."""
    spread = max(SPREAD_VALUES // layer.width, 1)
    notable = _notable_floats(layer, spread)
    argument = (
        "; between two of them the code cannot change, as division by a positive constant, clamping and rounding are "
        "monotone"
    )
    return Question(
        Step.QUANTIZATION,
        Side.BOARD,
        layer.name,
        "the code changes exactly at the thresholds of the specification, in every column",
        f"{2 * NEIGHBOURS} neighbours of all 255 thresholds, special values and {spread:,} evenly spread bit patterns "
        f"pass through every column{argument if monotone else ''}",
        notable.size * layer.width,
        complete=True,
        answer=lambda note: differing_output(
            stage, np.repeat(notable[:, None], layer.width, axis=1), specification.operator(layer), probe, note
        ),
    )


def independent_columns(layer: QuantizeLinear | QGemm, stage: Stage, probe: Probe | None) -> Question:
    """The columns of QuantizeLinear, or of what follows the sums of a QGemm, do not depend on each other."""
    quantizes = isinstance(layer, QuantizeLinear)
    operate = specification.operator(layer) if isinstance(layer, QuantizeLinear) else specification.finish(layer)
    kind = np.float32 if quantizes else np.int64
    return Question(
        Step.QUANTIZATION if quantizes else Step.REQUANTIZATION,
        Side.BOARD,
        layer.name,
        f"what becomes of {'an input' if quantizes else 'a sum'} does not depend on what other columns hold",
        f"{columns.METHOD}{', NaN and infinities among them' if quantizes else ''}",
        columns.VECTORS * layer.width,
        complete=True,
        answer=lambda note: differing_output(
            stage, _column_inputs(layer), lambda inputs: operate(inputs.astype(kind)), probe, note
        ),
    )


def _column_inputs(layer: QuantizeLinear | QGemm) -> Array:
    """Columns of equal and of different inputs: numbers around thresholds, sums within the bounds of each column."""
    rng = np.random.default_rng(0)
    if isinstance(layer, QuantizeLinear):
        return columns.mixed(_notable_floats(layer, 1024), layer.width)
    low, high = accumulator_bounds(layer)
    around = np.concatenate([rng.integers(low.min(), high.max() + 1, 2048), np.array([low.min(), 0, high.max()])])
    steps = np.empty(0) if layer.dtype == np.float32 else specification.thresholds(layer).reshape(-1)
    values = np.concatenate([around, steps, steps - 1]).astype(np.int64)
    return np.clip(columns.mixed(values, layer.width), low, high).astype(np.int32)


def _notable_floats(layer: QuantizeLinear, spread: int) -> Array:
    edges = specification.quantize_thresholds(layer)[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS)
    near = specification.from_ordered(np.clip(edges, -INFINITY_BITS, INFINITY_BITS)).reshape(-1)
    evenly = np.linspace(0, steps.FLOATS - 1, spread).astype(np.uint32).view(np.float32)
    special = np.array(
        [0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF], np.uint32
    )
    return np.concatenate([near, evenly, np.append(special, special | steps.NEGATIVE).view(np.float32)])


def every_accumulator(layer: QGemm, stage: Stage, probe: Probe | None) -> Question:
    """All accumulators within their bounds through the deployed code."""
    sweep = steps.accumulator_sweep(layer)
    to_float = layer.dtype == np.float32
    return Question(
        Step.REQUANTIZATION,
        Side.BOARD,
        layer.name,
        f"every reachable accumulator becomes the {'number' if to_float else 'code'} of the specification",
        "all integers between the bounds of each column pass through the deployed code, each through its column; "
        + ("all outputs are compared" if to_float else "every place where the code changes is compared"),
        sweep.cases,
        complete=True,
        answer=lambda note: _with_cause(
            _differing_number(layer, sweep, stage, probe, note)
            if to_float
            else differing_step(steps.of_accumulators(layer), sweep, stage, probe, str, note),
            lambda: cause.of_finish(layer, stage, probe) if probe else "",
        ),
    )


def _with_cause(counterexample: str, find: Callable[[], str]) -> str:
    """A counterexample, and the known mistakes that explain all that is like it, if any does."""
    likely = find() if counterexample else ""
    return f"{counterexample}; {likely}" if likely else counterexample


def reference_agrees(network: Network, layer: QuantizeLinear | QGemm, abandoned: Event) -> Question:
    """That ONNX Runtime and the integer specification say the same on all of that."""
    quantizes = isinstance(layer, QuantizeLinear)

    def confirm(_: Note) -> str:
        exhaustive.confirm(network, layer, abandoned)
        return ""

    return Question(
        Step.QUANTIZATION if quantizes else Step.REQUANTIZATION,
        Side.REFERENCE,
        layer.name,
        f"ONNX Runtime and the integer specification agree on every {'float32' if quantizes else 'accumulator'}",
        "the model's own node computes all of them" + ("" if quantizes else ", fed in place of its bias"),
        exhaustive.sweep(layer).cases,
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
    """The first input of a sweep whose code is not that of its column's staircase; `text` shows an input."""
    if probe is None:
        note(dumps.sha256(steps.expected(staircases, sweep)))
        return ""
    found, done = probe.steps(stage, sweep)
    different = steps.first_difference(steps.expected(staircases, done), found)
    if different is None and done.cases < sweep.cases:
        raise BoardError(f"the program ended the sweep of {stage.name} early, without a difference before")
    if different is None:
        note(dumps.sha256(found))
        return ""
    column, vector = different
    value = int(sweep.start[column]) + vector
    first = np.full((1, stage.input_width), value & (steps.FLOATS - 1), np.uint32).view(stage.input_dtype)
    alone, wanted = probe.outputs(stage, first)[0, column], staircases[column].at(value)
    becomes = f"{alone}, expected {wanted}" if alone != wanted else f"{wanted}, but within a sweep another code"
    return f"column {column}: {text(value)} becomes {becomes}"


def _float_text(bits: int) -> str:
    return f"{np.uint32(bits).view(np.float32)!s} ({bits:#010x})"


def _differing_number(layer: QGemm, sweep: Sweep, stage: Stage, probe: Probe | None, note: Note) -> str:
    length, finish = max(BYTES_AT_ONCE // (4 * layer.width), 1), specification.finish(layer)
    for first in range(0, sweep.vectors, length):
        part = Sweep(sweep.start + first, np.full_like(sweep.count, min(length, sweep.vectors - first)))
        accumulators = part.values().view(np.int32)
        wanted = _evaluate(lambda acc: finish(acc.astype(np.int64)), accumulators, layer.width)
        right = dumps.sha256(wanted)
        if probe and probe.sweep_sha256(stage, part) != right:
            counterexample = _first_number(stage, accumulators, wanted, sweep.count - first, probe)
            if counterexample:
                return counterexample
        note(right)
    return ""


def _first_number(stage: Stage, accumulators: Array, wanted: Array, reachable: Array, probe: Probe) -> str:
    """Of each column's first values only so many can be reached: a shorter column runs on."""
    found = probe.outputs(stage, accumulators)
    different = difference_map(wanted, found)
    if not different.any():
        return "the outputs of a sweep changed when they were asked for again"
    vectors, columns = np.nonzero(different & (np.arange(len(wanted))[:, None] < reachable))
    if not len(vectors):
        return ""
    at = vectors[0], columns[0]
    return f"column {at[1]}: {accumulators[at]} becomes {found[at]}, expected {wanted[at]}"


def differing_output(
    stage: Stage, inputs: Array, expected: Callable[[Array], Array], probe: Probe | None, note: Note
) -> str:
    """The first of the inputs (n, input width) whose output is not the expected one, in words."""
    rows = max(BYTES_AT_ONCE // (inputs.itemsize * inputs.shape[1] + 8 * stage.output_width), 1)
    for start in range(0, len(inputs), rows):
        part = inputs[start : start + rows]
        wanted = _evaluate(expected, part, stage.output_width).astype(stage.output_dtype)
        found = probe.outputs(stage, part) if probe else wanted
        vectors, columns = np.nonzero(difference_map(wanted, found))
        if len(vectors):
            at = vectors[0], columns[0]
            return f"column {at[1]} of inputs {_row(part[at[0]])}: {found[at]}, expected {wanted[at]}"
        note(dumps.sha256(found))
    return ""


def _evaluate(function: Callable[[Array], Array], inputs: Array, width: int) -> Array:
    """The function's outputs, (n, width), some rows at once: the specification needs a hundred bytes for a value."""
    rows = max(VALUES_AT_ONCE // width, 1)
    return np.concatenate([function(inputs[start : start + rows]) for start in range(0, len(inputs), rows)])


def _row(values: Array) -> str:
    """Whole, on one line: somebody is to try it again."""
    return f"[{', '.join(map(str, values))}]"


def quantization(layer: QuantizeLinear, stage: Stage, probe: Probe | None, *, all_floats: bool) -> Iterator[Question]:
    """Of QuantizeLinear; `all_floats` passes every input there is through the board too."""
    if all_floats:
        yield every_float(layer, stage, probe)
    yield thresholds(layer, stage, probe, monotone=not all_floats)
    yield independent_columns(layer, stage, probe)
