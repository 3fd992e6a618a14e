"""The hybrid architecture: specification, ONNX Runtime and board program against loops over boxes; planted errors."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.applications.decide.hybrid.network import decision_diagram
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.cell_union import CellUnion
from harness.operators.counters import Quantity
from harness.operators.position import Position
from harness.reference import Reference
from harness.reference.coverage import Coverage, describe
from harness.reference.stimuli import stimuli
from tests.support.decide.hybrids import notable_vectors, small
from tests.support.programs.board_program import assert_same, references
from tests.support.programs.c_variants import EVERY, of_variant
from tests.support.proof.trials import Workshop

COUNT = 3000


def test_both_references_select_what_loops_over_all_boxes_and_points_select() -> None:
    hybrid = small()
    vectors = notable_vectors(hybrid, COUNT)
    selected = Reference(hybrid.network).activations(vectors)[-1]
    np.testing.assert_array_equal(selected, hybrid.expected(vectors))
    branches = np.count_nonzero(selected[:, 1] == 0), *(np.count_nonzero(selected[:, 1] & bit) for bit in (1, 2, 4, 8))
    assert min(branches) > 50, branches


def test_the_vectors_of_a_run_take_every_branch() -> None:
    network = small().network
    vectors = stimuli(network, COUNT, 1).chunk(0, COUNT)
    coverage = Coverage(network)
    coverage.add(vectors, Reference(network).activations(vectors))
    met = coverage.result()[-1]
    counts = {quantity: each.activations for quantity, each in met.items()}
    assert min(counts.values()) > 5, counts
    assert counts[Quantity.NETWORK_SELECTED] + counts[Quantity.SAFETY_NET_SELECTED] == COUNT
    text = f"the branch of the network {counts[Quantity.NETWORK_SELECTED]:,} times and that of the safety net"
    assert text in describe(network, coverage.result())


VARIANTS = [pytest.param(each, marks=[] if each == "c:vector" else [pytest.mark.campaign]) for each in EVERY]


@pytest.mark.parametrize("target", VARIANTS)
def test_every_variant_selects_it_too_and_its_proof_holds(
    target: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    hybrid = small()
    trial = Workshop(of_variant(host, target), objects, tmp_path).trial(hybrid.network, block=7)
    vectors = notable_vectors(hybrid, 500)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), references(hybrid.network, vectors))
    assert trial.refuted() == {}


def test_every_fault_model_shows_at_notable_vectors() -> None:
    hybrid = small()
    vectors = notable_vectors(hybrid, COUNT)
    values = {hybrid.network.vector.name: vectors}
    for layer, right in zip(hybrid.network.layers, references(hybrid.network, vectors), strict=True):
        values[layer.output.name] = right
        if layer.name in ("locate_box", "check_input", "check_box", "look_up_table", "select"):
            faults = list(layer.fault_models(*(values[source] for source in layer.sources)))
            assert len(faults) >= 2
            for fault in faults:
                assert (fault.output.shape, fault.output.dtype) == (right.shape, right.dtype), fault.cause
                assert not np.array_equal(fault.output, right), fault.cause


@pytest.mark.parametrize("shape", [(5,), (1, 3), (4, 2, 7)])
def test_a_decision_diagram_leads_to_every_cell(shape: tuple[int, ...]) -> None:
    grid = np.random.default_rng(1).integers(0, 3, shape).astype(np.uint8)
    levels = decision_diagram(grid)
    found = levels[0][0]
    for level in levels[1:]:
        found = level[found]
    np.testing.assert_array_equal(found, grid)
    assert [len(np.unique(level, axis=0)) for level in levels] == [len(level) for level in levels]


def flipped(layer: CellUnion) -> CellUnion:
    """Another set of one cell, in the last level."""
    *others, last = layer.levels
    wrong = last.copy()
    wrong[len(wrong) // 2, 0] ^= 4
    return dataclasses.replace(layer, levels=(*others, wrong))


def one_ulp(layer: Position) -> Position:
    """A cut that is one float32 higher."""
    cuts = layer.cuts.copy()
    cuts[1, 2] = np.nextafter(cuts[1, 2], np.float32(np.inf))
    return dataclasses.replace(layer, cuts=cuts)


def half_open(layer: CellUnion) -> CellUnion:
    """Borders of the first axis belong to the upper cell only."""
    cells = layer.cells.copy()
    cells[0] = cells[1]
    return dataclasses.replace(layer, cells=cells)


PLANTED: dict[str, tuple[str, Any]] = {
    "bit of an unsafe box": ("check_box", flipped),
    "cell of the table": ("look_up_table", flipped),
    "cut by one ulp": ("locate_box", one_ulp),
    "half-open border": ("check_box", half_open),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_error_is_found_by_run_and_by_proof(fault: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    hybrid = small()
    name, change = PLANTED[fault]

    def planted(layer: Layer) -> Layer:
        wrong: Layer = change(layer) if layer.name == name else layer
        return wrong

    wrong = dataclasses.replace(hybrid.network, layers=tuple(map(planted, hybrid.network.layers)))
    workshop = Workshop(of_variant(host, "c"), objects, tmp_path)
    trial = workshop.trial(wrong)
    vectors = notable_vectors(hybrid, COUNT)
    expected: tuple[Array, ...] = references(hybrid.network, vectors)
    found = trial.program.activations(vectors, tmp_path / "run")
    differing = [layer.name for layer, one, other in zip(hybrid.network.layers, found, expected, strict=True)
                 if not np.array_equal(one, other)]  # fmt: skip
    assert differing[0] == name
    right = dataclasses.replace(trial.made, network=hybrid.network)
    refuted = dataclasses.replace(trial, made=right).refuted(name)
    assert {layer for _, layer in refuted} == {name}
