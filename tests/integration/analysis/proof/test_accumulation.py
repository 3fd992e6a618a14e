"""The sums of products: a wrong term, a wrong constant, a sum that does not fit into a part of the code."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.analysis.proof import Claim, ProofStep, Question, answers
from harness.core.arrays import Array
from harness.execution.probe import Probe
from harness.model.network import Network
from harness.operators import contraction_proof
from harness.operators.obligations import Extent, StageKind
from harness.operators.qgemm import QGemm
from harness.targets import Stage
from tests.support import builders
from tests.support.programs.board_program import Patch, parse
from tests.support.programs.chains import chain, qgemm, quantize
from tests.support.proof.trials import Change, Trial, Workshop

QGEMM = "kernels/c/qgemm.h"
ACCUMULATE = "sum[r] += a[k] * b[r * depth + k];"
PAIR = "(a[k] * b[r * depth + k] + (k + 1 < depth ? a[k + 1] * b[r * depth + k + 1] : 0))"
SATURATED_PAIRS = f"sum[r] += k % 2 ? 0 : {PAIR} > 32767 ? 32767 : {PAIR} < -32768 ? -32768 : {PAIR};"

NETWORKS = {
    "uint8": parse(builders.random_network(np.random.default_rng(3), (6, 7, 7), per_column=True, zero_points=True)),
    "uint8 weights": parse(
        builders.random_network(np.random.default_rng(4), (5, 8), weights="uint8", zero_points=True)
    ),
    "int8": parse(builders.random_network(np.random.default_rng(5), (7, 5), activations="int8", zero_points=True)),
    "float": parse(builders.random_network(np.random.default_rng(6), (8, 3), float_output=True, zero_points=True)),
}


def qgemms(net: Network) -> list[QGemm]:
    return [layer for layer in net.layers if isinstance(layer, QGemm)]


def of(value: Array, index: tuple[int, ...] | int, by: int) -> Array:
    """A copy, one value moved by so much."""
    changed = value.copy()
    changed[index] += by
    return changed


WRONG_CONSTANTS: dict[str, Change] = {
    "one weight": lambda layer: dataclasses.replace(layer, weights=of(layer.weights, (2, 1), 1)),
    "two weights exchanged": lambda layer: dataclasses.replace(
        layer, weights=of(of(layer.weights, (0, 1), 5), (1, 1), -5)
    ),
    "columns in another order": lambda layer: dataclasses.replace(layer, weights=layer.weights[:, ::-1].copy()),
    "inputs in another order": lambda layer: dataclasses.replace(layer, weights=layer.weights[::-1].copy()),
    "one bias": lambda layer: dataclasses.replace(layer, bias=of(layer.bias, -1, -1)),
    "no bias": lambda layer: dataclasses.replace(layer, bias=np.zeros_like(layer.bias)),
    "input zero point": lambda layer: dataclasses.replace(layer, a_zero_point=layer.a_zero_point + 1),
    "weights zero point": lambda layer: dataclasses.replace(
        layer, weights_zero_point=of(layer.weights_zero_point, 0, 1)
    ),
}


@pytest.mark.parametrize("change", WRONG_CONSTANTS.values(), ids=WRONG_CONSTANTS)
def test_a_wrong_constant_is_found_by_what_it_does(workshop: Workshop, change: Change) -> None:
    """Beside its table: the sums are asked by themselves."""
    trial = workshop.trial(NETWORKS["uint8"], change=change)
    assert set(trial.refuted()) == {
        (ProofStep.CONSTANTS, None),
        *((ProofStep.ACCUMULATION, layer.name) for layer in qgemms(trial.network)),
    }


def test_transposed_weights_are_found(workshop: Workshop) -> None:
    square = qgemms(NETWORKS["uint8"])[1]

    def transpose(layer: QGemm) -> QGemm:
        return dataclasses.replace(layer, weights=layer.weights.T) if layer.name == square.name else layer

    trial = workshop.trial(NETWORKS["uint8"], change=transpose)
    assert set(trial.refuted()) == {(ProofStep.CONSTANTS, None), (ProofStep.ACCUMULATION, square.name)}


WRONG_TERMS = {
    "last input left out": "(k < depth - 1) * a[k]",
    "next input's code": "a[k + (k + 1 < depth)]",
    "code 255 taken for 254": "(a[k] - (a[k] == 255))",
    "code 0 of one input": "(a[k] + (k == 3 && a[k] == 0))",
}


@pytest.mark.parametrize("factor", WRONG_TERMS.values(), ids=WRONG_TERMS)
def test_wrong_terms_are_found(workshop: Workshop, factor: str) -> None:
    patch = Patch(QGEMM, ACCUMULATE, ACCUMULATE.replace("a[k]", factor))
    trial = workshop.trial(NETWORKS["uint8 weights"], [patch])
    assert set(trial.refuted()) == {(ProofStep.ACCUMULATION, "layer_0")}
    alone, _, _ = sums(trial)
    assert not alone.holds
    trial.check(alone)


def sums(trial: Trial) -> tuple[Claim, Claim, Claim]:
    """What is said of the terms alone, of the sums at their extremes, and of terms that depend on other inputs."""
    alone, together, independent = [
        question.ask() for question in trial.questions() if question.step is ProofStep.ACCUMULATION
    ]
    return alone, together, independent


PAIRS = {
    "two codes of two inputs": "(k == 4 && a[4] == 13 && a[0] == 200)",
    "equal codes of neighbours": "(k == 1 && a[1] == a[2] && a[1] == 103)",
    "the extreme of one beside the middle of another": "(k == 3 && a[3] == 255 && a[2] == 77)",
}


@pytest.mark.parametrize("condition", PAIRS.values(), ids=PAIRS)
def test_a_term_that_depends_on_two_inputs_is_found(workshop: Workshop, condition: str) -> None:
    """By vectors in which any two inputs have every pair of codes; each input alone does not show it."""
    patch = Patch(QGEMM, ACCUMULATE, f"sum[r] += a[k] * b[r * depth + k] + {condition};")
    trial = workshop.trial(NETWORKS["uint8 weights"], [patch])
    alone, together, independent = sums(trial)
    assert (alone.holds, together.holds, independent.holds) == (True, True, False)
    trial.check(independent)


def test_what_changes_between_two_questions_is_no_right_answer(workshop: Workshop) -> None:
    """Wrong for vectors that the program generates itself; those that are sent afterwards are all right."""
    advance = "vectors->next += count;"
    patch = Patch("kernels/program/vectors.c", advance, f"rows[0] ^= options->generated != 0; {advance}")
    _, _, independent = sums(workshop.trial(NETWORKS["uint8 weights"], [patch]))
    assert independent.counterexample == "the sums of generated vectors changed when they were asked for again"


@pytest.mark.parametrize("name", ["uint8", "float"])
def test_columns_behind_the_last_whole_group_that_are_wrong_are_found(workshop: Workshop, name: str) -> None:
    patch = Patch(QGEMM, "(1, depth, a, &b[n * depth], &acc[n])", "(1, depth, a, b, &acc[n])")
    trial = workshop.trial(NETWORKS[name], [patch])
    assert set(trial.refuted()) == {(ProofStep.ACCUMULATION, layer.name) for layer in qgemms(trial.network)}


def test_a_wrong_offset_is_found_in_the_tables_too(workshop: Workshop) -> None:
    """It is computed on the board."""
    patch = Patch(QGEMM, "(uint32_t)depth * (uint32_t)za", "(uint32_t)(depth - 1) * (uint32_t)za")
    trial = workshop.trial(NETWORKS["int8"], [patch])
    refuted = trial.refuted()
    assert set(refuted) == {(ProofStep.CONSTANTS, None), (ProofStep.ACCUMULATION, "layer_0")}
    assert "table layer_0_offset[0]" in refuted[ProofStep.CONSTANTS, None].counterexample


# Parts of a sum that are too narrow: only the extremes show them.


def steep(depth: int, weights: tuple[int, int], width: int = 2) -> Network:
    """Weights of these two values in turn, all sums of one sign, float32 output."""
    values = np.resize(np.array(weights, np.int8), (width, depth)).T
    return chain([quantize(1, 0, "uint8"), qgemm(values, np.zeros(width), np.ones(1), None)], ("float32", width), depth)


TOO_NARROW = {
    "int16 pairs of products": (steep(3, (127, 127)), [Patch(QGEMM, ACCUMULATE, SATURATED_PAIRS)]),
    "int16 pairs, negative": (steep(3, (-128, -128)), [Patch(QGEMM, ACCUMULATE, SATURATED_PAIRS)]),
    "int16 sum": (steep(2, (127, 3)), [Patch(QGEMM, "int32_t sum[QGEMM_ROWS]", "int16_t sum[QGEMM_ROWS]")]),
    "sum in float32, even at its bound": (
        steep(540, (126, 125), width=1),
        [Patch(QGEMM, "dot[r] = sum[r];", "dot[r] = (int32_t)(float)sum[r];")],
    ),
    "sum of the codes in int16": (
        parse(builders.random_network(np.random.default_rng(7), (150, 2), weights="uint8", zero_points=True)),
        [Patch(QGEMM, "int32_t sum_a = 0;", "int16_t sum_a = 0;")],
    ),
}


@pytest.mark.parametrize(("net", "patches"), TOO_NARROW.values(), ids=TOO_NARROW)
def test_a_part_of_the_sum_that_is_too_narrow_is_found(workshop: Workshop, net: Network, patches: list[Patch]) -> None:
    """Each input alone stays small enough."""
    trial = workshop.trial(net, patches)
    alone, together, _ = sums(trial)
    assert (alone.holds, together.holds) == (True, False)


# The inputs that are tried.


def test_single_codes_are_each_input_at_each_code(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = qgemms(NETWORKS["int8"])[0]
    at_once = 3 * 256 * (layer.input.size + 8 * layer.size)
    monkeypatch.setattr(contraction_proof, "BYTES_AT_ONCE", at_once)  # three inputs at once, then one
    parts, sums = zip(*contraction_proof.single_codes(layer).cases(), strict=True)
    assert [len(part) for part in parts] == [768, 768, 256]
    codes = np.concatenate(parts)
    assert np.array_equal(np.concatenate(sums), layer.accumulate()(codes))
    assert codes.dtype == np.int8
    moved = codes != layer.a_zero_point
    assert (moved.sum(axis=1) <= 1).all()
    for k in range(layer.input.size):
        assert codes[256 * k : 256 * (k + 1), k].tolist() == list(range(-128, 128))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_extremes_bring_every_column_to_its_bounds(name: str) -> None:
    """And the sum of the codes, and that of the weights as the kernel has them."""
    for layer in qgemms(NETWORKS[name]):
        codes, limits = layer.extremes(), np.iinfo(layer.input.dtype)
        sums = layer.accumulate()(codes)
        low, high = layer.accumulator_bounds()
        assert (sums.min(axis=0).tolist(), sums.max(axis=0).tolist()) == (low.tolist(), high.tolist())
        total = codes.astype(int).sum(axis=1)
        assert (total.min(), total.max()) == (limits.min * layer.input.size, limits.max * layer.input.size)
        shift = 128 if layer.weights.dtype == np.uint8 else 0
        stored = layer.weights.astype(int) - shift
        products = codes.astype(int) @ stored
        ends = np.array([[limits.min], [limits.max]])[:, :, None] * stored
        assert products.max(axis=0).tolist() == ends.max(axis=0).sum(axis=0).tolist()
        assert products.min(axis=0).tolist() == ends.min(axis=0).sum(axis=0).tolist()


def first_question(layer: QGemm, stage: Stage, probe: Probe) -> Question:
    return answers.question(next(layer.obligations(Extent(all_floats=False, random_vectors=0))), layer, stage, probe)


def test_the_bounds_are_those_of_the_claim(workshop: Workshop) -> None:
    layer = qgemms(NETWORKS["uint8"])[0]
    trial = workshop.trial(NETWORKS["uint8"])
    stage = trial.stage(layer, StageKind.ACCUMULATE)
    overflow = first_question(layer, stage, trial.probe)
    assert overflow.ask().holds
    beyond = dataclasses.replace(layer, bias=of(layer.bias, 2, 2**31 - 10_000))
    overflow = first_question(beyond, stage, trial.probe)
    assert overflow.ask().counterexample.startswith("column 2: ")
