"""The tables of a program as bits, and the multipliers in integer arithmetic."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.analysis.proof import Claim, ProofStep, Question, Side, constants
from harness.build import codegen
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.scaled_sum import Scales
from tests.support import builders
from tests.support.examples import examples
from tests.support.programs.board_program import Patch, parse
from tests.support.programs.chains import Node, chain, qgemm, quantize
from tests.support.proof.trials import Trial, Workshop
from tests.unit.operators.test_specification import sum_network

NET = parse(builders.random_network(np.random.default_rng(1), (4, 6, 3), zero_points=True, dequantize=True))
SUM = sum_network(["addend", "b"], {"addend": np.float32(-0.37)}, 0.01)

PROBE = "kernels/program/probe.c"
LYING = """
static const void *shown(size_t index, const struct table *table)
{
    static unsigned char copy[4096];
    const size_t size = table->rows * table->columns * table->element_size;
    memcpy(copy, table->values, size);
    copy[size - 1] ^= index == (size_t)atoi(getenv("WRONG_TABLE")) ? 16 : 0;
    return copy;
}

struct probed probe_tables"""
LIE = [
    Patch(PROBE, "\nstruct probed probe_tables", LYING),
    Patch(PROBE, "table->values, table->rows", "shown(i, table), table->rows"),
]


def held(trial: Trial) -> Claim:
    """What is said of the tables."""
    asked = constants.questions(trial.network, trial.parts, codegen.generate(trial.made).tasks, trial.probe)
    return next(question for question in asked if question.side is Side.BOARD).ask()


@pytest.mark.parametrize("net", [NET, SUM], ids=["chain", "constant term"])
def test_one_wrong_bit_of_any_table_is_found(workshop: Workshop, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = workshop.trial(net, LIE)
    for index, table in enumerate(trial.tables()):
        monkeypatch.setenv("WRONG_TABLE", str(index))
        claim = held(trial)
        trial.check(claim)
        rows, columns = np.atleast_2d(table.values).shape
        assert claim.counterexample.startswith(f"table {table.name}[{rows - 1}][{columns - 1}] holds")
        assert claim.counterexample.endswith(f"(1 of {table.values.size} values differ)")
    monkeypatch.setenv("WRONG_TABLE", "-1")
    assert held(trial).holds


def test_a_multiplier_wrong_in_its_last_place_is_found_though_no_activation_shows_it(workshop: Workshop) -> None:
    def change(layer: QGemm) -> QGemm:
        wrong = layer.multiplier.copy()
        wrong[1] = np.nextafter(wrong[1], np.float32(0))
        return dataclasses.replace(layer, multiplier=wrong) if layer.name == "layer_1" else layer

    trial = workshop.trial(NET, change=change)
    refuted = trial.refuted()
    assert set(refuted) == {(ProofStep.CONSTANTS, None)}
    assert refuted[ProofStep.CONSTANTS, None].counterexample.startswith("table layer_1_multiplier[0][1] holds 0x")


def test_every_value_counts_as_a_case(workshop: Workshop) -> None:
    trial = workshop.trial(NET)
    claim = held(trial)
    assert claim.holds
    assert claim.question.cases == sum(table.values.size for table in trial.tables())
    of_values = (
        2 + (24 + 6 * 3 + 6 + 2) + (18 + 3 * 3 + 3 + 2) + 2
    )  # scale, zero point; weights, by column, zero points
    assert claim.question.cases == of_values


def test_two_nodes_whose_tables_could_have_one_name_have_two(workshop: Workshop) -> None:
    """A QGemm and what dequantises its output are often called so."""
    layer = qgemm(np.ones((2, 3), np.int8), np.zeros(3), np.ones(1), (1.0, 7))
    constants_ = {"scale": np.float32(0.5), "zero_point": np.uint8(7)}
    net = chain([quantize(1, 0, "uint8"), layer, Node("DequantizeLinear", constants_)], ("float32", 3), 2)
    names = ("dense_input", "dense", "dense_output")
    layers = tuple(dataclasses.replace(layer, name=name) for layer, name in zip(net.layers, names, strict=True))
    trial = workshop.trial(dataclasses.replace(net, layers=layers))
    assert held(trial).holds
    assert len({table.name for table in trial.tables()}) == len(trial.tables()) == 10


# The multipliers, in integers.


def _float(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


scales = st.one_of(st.floats(2.0**-20, 2.0**10, width=32), st.integers(0x00800000, 0x7F7FFFFF).map(_float))


@examples(300)
@given(scales, scales, st.lists(scales, min_size=1, max_size=3), st.one_of(st.none(), scales))
def test_the_bits_of_a_multiplier(alpha: float, a: float, b: list[float], y: float | None) -> None:
    """As numpy's float32 has them, products that are subnormal on the way included."""
    given_scales = Scales(
        np.float32(alpha), np.float32(a), np.array(b, np.float32), None if y is None else np.float32(y)
    )
    with np.errstate(all="ignore"):
        product = (given_scales.alpha * given_scales.a) * given_scales.b
        right = product if given_scales.y is None else product / given_scales.y
    assume(np.isfinite(product).all())
    assume((np.isfinite(right) & (right >= np.finfo(np.float32).tiny)).all())
    assert given_scales.multiplier_bits().tolist() == right.view(np.uint32).tolist()


def test_a_subnormal_product_on_the_way() -> None:
    values = Scales(np.float32(1e-25), np.float32(1e-18), np.array([1.7e22], np.float32), np.float32(1e15))
    product = values.alpha * values.a
    assert 0 < product < np.finfo(np.float32).tiny
    right = (product * values.b) / values.y
    assert values.multiplier_bits().tolist() == right.view(np.uint32).tolist()


def multipliers(net: Network, layers: Sequence[Layer]) -> Question:
    wrong = dataclasses.replace(net, layers=tuple(layers))
    return next(question for question in constants.questions(wrong, [], [], None) if question.side is Side.REFERENCE)


@pytest.mark.parametrize("wrong", ["alpha", "a", "b", "y", None])
def test_scales_of_which_a_multiplier_is_not_made_are_found(wrong: str | None) -> None:
    *before, second, last = NET.layers
    assert isinstance(second, QGemm)
    if wrong:
        value = np.asarray(getattr(second.scales, wrong))
        moved = dataclasses.replace(second.scales, **{wrong: np.nextafter(value, np.float32(9))})
        second = dataclasses.replace(second, scales=moved)
    name = wrong if wrong == "alpha" else f"{wrong}_scale"
    found = multipliers(NET, [*before, second, last]).ask().counterexample
    assert found.startswith(f"layer layer_1: {name}[0] is ") if wrong else found == ""


def test_every_constant_of_the_file_counts_as_a_case() -> None:
    of_layers = (24 + 4 * 6 + 5) + (18 + 4 * 3 + 5)  # weights; by column; alpha, scales and zero points of a and y
    assert multipliers(NET, NET.layers).cases == 2 + of_layers + 2
