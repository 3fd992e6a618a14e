"""QuantizeLinear and the end of QGemm: every way to round wrongly, at one input only or everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from harness.analysis.proof import ProofStep, Side, answers
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.operators import quantize_linear, sweeps
from harness.operators.obligations import StageKind
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.operators.sweeps import Sweep
from tests.support import builders
from tests.support.programs.board_program import Patch, parse
from tests.support.proof.trials import Trial, Workshop

SATURATE, QGEMM = (f"kernels/c/{name}.h" for name in ("saturate", "qgemm"))
NETWORK, QUOTIENT, VALUE = "network.c", "= x / scale;", "quantize_value(in[n]"
REQUANTIZE = "round_saturated((float)acc[n] * m[n], QMIN, QMAX, zy)"
SCALE = "y[n] = (float)acc[n] * m[n];"

TIES = parse(builders.random_network(np.random.default_rng(3), (6, 8, 5), power_of_two=True, zero_points=True))
PLAIN = parse(
    builders.random_network(np.random.default_rng(4), (3, 9, 4), activations="int8", per_column=True, zero_points=True)
)
FLOAT = parse(builders.random_network(np.random.default_rng(5), (8, 3), float_output=True, per_column=True))
SUM = parse(builders.random_network(np.random.default_rng(6), (4, 6, 5), residual=2))

EVERYWHERE = {
    (ProofStep.QUANTIZATION, "quantize"),
    (ProofStep.REQUANTIZATION, "layer_0"),
    (ProofStep.REQUANTIZATION, "layer_1"),
}

WRONG_ROUNDINGS = {
    "half away": Patch(SATURATE, "rintf(v)", "roundf(v)"),
    "half up": Patch(SATURATE, "rintf(v)", "floor(v + 0.5)"),
    "towards zero": Patch(SATURATE, "rintf(v)", "truncf(v)"),
    "clamped one early": Patch(SATURATE, "qmax - zero_point", "qmax - 1 - zero_point"),
    "clamped one late": Patch(SATURATE, "qmin - zero_point", "qmin - 1 - zero_point"),
    "not clamped": Patch(SATURATE, "v = v < high ? v : high;", "(void)high;"),
    "zero point off by one": Patch(SATURATE, "+ zero_point;", "+ zero_point + (v > 20);"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("patch", WRONG_ROUNDINGS.values(), ids=WRONG_ROUNDINGS)
def test_a_wrong_rounding_is_found_wherever_it_is_used(workshop: Workshop, patch: Patch) -> None:
    assert set(workshop.trial(TIES, [patch]).refuted()) == EVERYWHERE


def test_a_wrong_rounding_behind_a_sum_is_found(workshop: Workshop) -> None:
    refuted = workshop.trial(SUM, [Patch(SATURATE, "rintf(v)", "truncf(v)")]).refuted()
    assert set(refuted) == {(ProofStep.QUANTIZATION, "quantize"), (ProofStep.QUANTIZATION, "layer_0_quantize")}


@pytest.mark.parametrize("x", ["x * (1 / scale)", "(x == x ? x / scale : 0)", "(x == -INFINITY ? 0 : x / scale)"])
def test_a_wrong_quantize_linear_is_found(workshop: Workshop, x: str) -> None:
    """A reciprocal; NaN that becomes the zero point; an infinity."""
    trial = workshop.trial(PLAIN, [Patch(NETWORK, QUOTIENT, f"= {x};")])
    assert set(trial.refuted()) == {(ProofStep.QUANTIZATION, "quantize")}


def test_a_quantize_linear_that_is_wrong_in_one_column_is_found(workshop: Workshop) -> None:
    patch = Patch(NETWORK, VALUE, "quantize_value(n == 2 && in[n] / scale > 20.5f ? in[n] + scale : in[n]")
    refuted = workshop.trial(PLAIN, [patch]).refuted()
    assert set(refuted) == {(ProofStep.QUANTIZATION, "quantize")}
    assert "column 2 of inputs" in refuted[ProofStep.QUANTIZATION, "quantize"].counterexample


EQUAL_SUMS = "acc[n] ^ (n + 1 < width && acc[n] == acc[n + 1] && acc[n] > 99)"


@pytest.mark.parametrize(
    ("patch", "step"),
    [
        (Patch(NETWORK, VALUE, "quantize_value(n == 1 && in[1] == in[2] ? in[0] : in[n]"), ProofStep.QUANTIZATION),
        (
            Patch(NETWORK, VALUE, "quantize_value(n == 2 && in[1] != in[1] && in[2] == in[2] ? 0 : in[n]"),
            ProofStep.QUANTIZATION,
        ),
        (Patch(QGEMM, REQUANTIZE, REQUANTIZE.replace("acc[n]", f"({EQUAL_SUMS})")), ProofStep.REQUANTIZATION),
    ],
    ids=["equal neighbours", "NaN beside a number", "equal sums of neighbours"],
)
def test_columns_that_depend_on_each_other_are_found(workshop: Workshop, patch: Patch, step: ProofStep) -> None:
    trial = workshop.trial(PLAIN, [patch])
    failed = [claim for question in trial.questions() if not (claim := question.ask()).holds]
    assert {claim.question.step for claim in failed} == {step}
    assert all("does not depend on what other columns hold" in claim.question.statement for claim in failed)
    for claim in failed:
        trial.check(claim)


# One accumulator alone.


@pytest.mark.parametrize("at", ["acc[n] == 777", "acc[n] == 777 && n == 3"])
def test_one_wrong_accumulator_is_found(workshop: Workshop, at: str) -> None:
    patch = Patch(QGEMM, f"(Y##_t){REQUANTIZE}", f"(Y##_t)({REQUANTIZE} ^ ({at}))")
    refuted = workshop.trial(PLAIN, [patch]).refuted()
    assert set(refuted) == {(ProofStep.REQUANTIZATION, "layer_0"), (ProofStep.REQUANTIZATION, "layer_1")}
    assert {": 777 becomes" in claim.counterexample for claim in refuted.values()} == {True}


@pytest.mark.parametrize("end", [0, 1])
def test_the_first_and_the_last_accumulator_are_tried(workshop: Workshop, end: int) -> None:
    """Of one column, which is not the longest; what lies beyond cannot occur, and is not."""
    layer = PLAIN.layers[1]
    assert isinstance(layer, QGemm)
    sweep = layer.sweep()
    column = int(np.argmin(sweep.count))
    bound = int(sweep.start[column] + end * (sweep.count[column] - 1))
    for value, found in ((bound, True), (bound + (1 if end else -1), False)):
        wrong = f"(Y##_t)({REQUANTIZE} ^ (acc[n] == {value} && n == {column} && width == {layer.size}))"
        refuted = workshop.trial(PLAIN, [Patch(QGEMM, f"(Y##_t){REQUANTIZE}", wrong)]).refuted()
        assert set(refuted) == ({(ProofStep.REQUANTIZATION, layer.name)} if found else set())


WRONG_NUMBERS = {
    "one accumulator": "y[n] = (float)(acc[n] + (acc[n] == -777 && n == 1)) * m[n];",
    "minus zero": "y[n] = acc[n] == 0 ? -0.0f : (float)acc[n] * m[n];",
    "one ulp": "y[n] = (float)((double)acc[n] * m[n] * (1 + 0x1p-25));",
}


@pytest.mark.parametrize("expression", WRONG_NUMBERS.values(), ids=WRONG_NUMBERS)
def test_a_wrong_number_is_found(workshop: Workshop, expression: str) -> None:
    trial = workshop.trial(FLOAT, [Patch(QGEMM, SCALE, expression)])
    if "-0.0f" not in expression:
        assert set(trial.refuted()) == {(ProofStep.REQUANTIZATION, "layer_0")}
        return
    claim, _ = [question.ask() for question in trial.questions() if question.step is ProofStep.REQUANTIZATION]
    assert ": 0 becomes -0.0, expected 0.0" in claim.counterexample


def test_a_number_that_is_wrong_where_its_column_does_not_come_is_no_counterexample(workshop: Workshop) -> None:
    """The shortest column runs on until the longest has come to its end."""
    layer = FLOAT.layers[1]
    assert isinstance(layer, QGemm)
    sweep = layer.sweep()
    column = int(np.argmin(sweep.count))
    bound = int(sweep.start[column] + sweep.count[column] - 1)
    for value, found in ((bound, True), (bound + 1, False)):
        wrong = f"y[n] = (float)(acc[n] + (acc[n] == {value} && n == {column})) * m[n];"
        refuted = workshop.trial(FLOAT, [Patch(QGEMM, SCALE, wrong)]).refuted()
        assert set(refuted) == ({(ProofStep.REQUANTIZATION, layer.name)} if found else set())


def test_a_wrong_number_in_a_later_part_of_a_sweep_is_found(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep is cut into parts of 10,000 vectors; the last of the longest column is shorter."""
    monkeypatch.setattr(answers, "BYTES_AT_ONCE", 4 * 3 * 10_000)
    layer = FLOAT.layers[1]
    assert isinstance(layer, QGemm)
    sweep = layer.sweep()
    column = int(np.argmax(sweep.count))
    last = int(sweep.start[column] + sweep.count[column] - 1)
    assert sweep.vectors > 20_000
    assert sweep.vectors % 10_000 > 0
    wrong = f"y[n] = (float)(acc[n] ^ (acc[n] == {last} && n == {column})) * m[n];"
    trial = workshop.trial(FLOAT, [Patch(QGEMM, SCALE, wrong)])
    refuted = trial.refuted()
    assert f"column {column}: {last} becomes" in refuted[ProofStep.REQUANTIZATION, "layer_0"].counterexample


def ignore(_sha256: str) -> None:
    """Of answers that are right."""


def test_inputs_that_pass_in_parts_are_all_compared(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three vectors at once, and one at the end, of which the specification computes two at once."""
    trial, layer = workshop.trial(PLAIN), PLAIN.layers[1]
    assert isinstance(layer, QGemm)
    stage = trial.stage(layer, StageKind.ACCUMULATE)
    monkeypatch.setattr(answers, "BYTES_AT_ONCE", 3 * (layer.input.size + 8 * layer.size))
    monkeypatch.setattr(answers, "VALUES_AT_ONCE", 2 * layer.size)
    inputs = np.arange(30, dtype=np.int8).reshape(10, 3)
    right = layer.accumulate()
    assert answers.differing_output(stage, inputs, right, trial.probe, ignore) == ""
    for first in inputs[:, 0].tolist():

        def wrong(part: Array, at: int = first) -> Array:
            return right(part) + (part[:, :1] == at) * (np.arange(layer.size) == 4)

        found = answers.differing_output(stage, inputs, wrong, trial.probe, ignore)
        assert found.startswith(f"column 4 of inputs {inputs[inputs[:, 0] == first][0].tolist()}: ")


def test_a_wide_input_is_told_whole_so_that_it_can_be_tried_again(workshop: Workshop) -> None:
    network = parse(builders.random_network(np.random.default_rng(3), (3, 400, 2)))
    trial, layer = workshop.trial(network), network.layers[2]
    assert isinstance(layer, QGemm)
    inputs = np.random.default_rng(4).integers(0, 256, (1, 400)).astype(np.uint8)
    wrong = layer.accumulate()(inputs) + 1
    found = answers.differing_output(
        trial.stage(layer, StageKind.ACCUMULATE), inputs, lambda _: wrong, trial.probe, ignore
    )
    assert found.startswith(f"column 0 of inputs {inputs[0].tolist()}: {wrong[0, 0] - 1}, ")


# Every float: part of the sweep, as all of it takes long.


def quantize_of(trial: Trial) -> QuantizeLinear:
    layer = trial.network.layers[0]
    assert isinstance(layer, QuantizeLinear)
    return layer


def differing_float(trial: Trial, start: int, count: int) -> str:
    """As `every_float`, of so many bit patterns in column 0, and of those 2^31 further on in column 1."""
    layer = quantize_of(trial)
    sweep = Sweep(np.array([start, start + 2**31, 0]), np.array([count, count // 2, 0]))
    staircases = [layer.step_function()] * layer.size
    stage = trial.stage(layer, StageKind.COMPUTE)
    return answers.differing_step(staircases, sweep, stage, trial.probe, quantize_linear._float_text, ignore)


ONE_FLOAT = Patch(NETWORK, QUOTIENT, "= (union { float x; uint32_t bits; }){x}.bits == BITS ? 9 * scale : x / scale;")


@pytest.mark.parametrize("bits", [0x3D123456, 0xBD123456, 0x7F876543, 0xFF876543])
def test_one_wrong_float_is_found_by_the_sweep_of_all_and_by_nothing_else(workshop: Workshop, bits: int) -> None:
    """A number far from all thresholds, and NaNs: what `--floats all` is for."""
    patch = Patch(ONE_FLOAT.file, ONE_FLOAT.old, ONE_FLOAT.new.replace("BITS", f"{bits:#x}u"))
    trial = workshop.trial(PLAIN, [patch])
    assert trial.refuted() == {}
    start = bits % 2**31 - 900
    found = differing_float(trial, start, 2000)
    assert f"({bits:#010x}) becomes " in found
    assert found.startswith(f"column {bits >> 31}: ")
    assert differing_float(trial, start + 901, 1099) == ""
    assert differing_float(trial, start, 900) == ""


def test_all_floats_are_asked_for_only_if_wanted(workshop: Workshop) -> None:
    trial = workshop.trial(PLAIN)
    cases = [
        {
            question.cases
            for question in trial.questions(all_floats=all_floats)
            if question.step is ProofStep.QUANTIZATION
        }
        for all_floats in (True, False)
    ]
    last = 3 * (quantize_linear.LAST_COLUMNS // 6)
    assert cases[0] - cases[1] == {2**32, last}
    few = next(question for question in trial.questions() if question.step is ProofStep.QUANTIZATION)
    assert "monotone" in few.method
    every, *of_last_columns, near, _ = [
        question for question in trial.questions(all_floats=True) if question.step is ProofStep.QUANTIZATION
    ]
    assert every.complete
    assert [question.cases for question in of_last_columns] == [last, last]
    assert "monotone" not in near.method


def test_the_sweep_of_all_floats_begins_and_ends_where_it_says(workshop: Workshop) -> None:
    """The first thousand of each column, of which the first two are 1,431,655,766 patterns long."""
    trial = workshop.trial(PLAIN)
    layer = quantize_of(trial)
    whole = sweeps.float_sweep(layer.size)
    sweep = whole.first(1000)
    found, done = trial.probe.steps(trial.stage(layer, StageKind.COMPUTE), sweep)
    assert np.array_equal(found, sweeps.expected([layer.step_function()] * layer.size, sweep))
    assert done.cases == 3000


def test_a_sweep_that_ends_early_without_a_difference_says_nothing(workshop: Workshop) -> None:
    """It is no counterexample, and no proof: the program stopped before the column's last accumulators."""
    patch = Patch("kernels/program/probe.c", "done < options->sweep && steps.count < limit", "done < 640")
    trial = workshop.trial(PLAIN, [patch])
    (question, *_) = [question for question in trial.questions() if question.step is ProofStep.REQUANTIZATION]
    with pytest.raises(BoardError, match="ended the sweep of layer_0_finish early"):
        question.ask()


def test_a_code_that_is_right_alone_and_wrong_in_a_sweep_is_a_counterexample(workshop: Workshop) -> None:
    """A stage with a memory."""
    memory = "static int32_t before; const int32_t acc_before = before; before = acc[n];"
    wrong = Patch(QGEMM, "y[n] = (Y##_t)round", f"{{ {memory} y[n] = (acc_before == 41 && acc[n] == 42) + (Y##_t)round")
    closed = Patch(QGEMM, "(float)acc[n] * m[n], QMIN, QMAX, zy);", "(float)acc[n] * m[n], QMIN, QMAX, zy); }")
    net = parse(builders.random_network(np.random.default_rng(8), (4, 1)))
    trial = workshop.trial(net, [wrong, closed])
    claims = [question.ask() for question in trial.questions() if question.step is ProofStep.REQUANTIZATION]
    assert [claim.counterexample.split(" becomes ")[0] for claim in claims] == ["column 0: 42", ""]
    assert "but within a sweep another code" in claims[0].counterexample


def test_too_many_steps_are_a_difference_all_the_same(workshop: Workshop) -> None:
    wrapped = Patch(QGEMM, f"(Y##_t){REQUANTIZE}", "(Y##_t)acc[n]")
    limit = Patch("kernels/program/probe.c", "STEP_LIMIT = 4000000", "STEP_LIMIT = 1")
    trial = workshop.trial(PLAIN, [wrapped, limit])
    assert {layer for step, layer in trial.refuted() if step is ProofStep.REQUANTIZATION} == {"layer_0", "layer_1"}


# The reference.


def test_the_reference_is_asked_the_same_cases(workshop: Workshop) -> None:
    trial = workshop.trial(PLAIN)
    layer = PLAIN.layers[1]
    assert isinstance(layer, QGemm)
    question = answers.reference_agrees(PLAIN, layer, trial.subject.abandoned)
    assert (question.side, question.complete) == (Side.REFERENCE, True)
    assert question.cases == layer.sweep().cases
    assert question.ask().holds
