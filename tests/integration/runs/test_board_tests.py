"""ONNX's own tests on a board: a fixed slice of them on this machine, a wrong program and a target without a layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.boards.workspace import Workspace
from harness.core.arrays import Array
from harness.core.installation import ROOT
from harness.plan.plan import Plan
from harness.reference import conformance
from harness.reference.conformance import PASS, REFUSED, WRONG, Case
from harness.runs.board_tests import BoardTests, on_board

SLICE = (
    "test_argmax_keepdims_example_select_last_index",
    "test_cast_FLOAT16_to_DOUBLE",
    "test_conv_with_autopad_same",
    "test_isnan",
    "test_max_int8",
    "test_softmax_large_number_expanded",
)
"""A test of each kind of layer: an index, bits, a window, NaN, integers, a function of several layers."""


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.name: case for case in conformance.cases("node") if case.name in SLICE}


@pytest.fixture(scope="module")
def board(cache: Path, kept_objects: None) -> Iterator[BoardTests]:  # noqa: ARG001 - a fixture
    space = Workspace(ROOT / "boards.yaml", ROOT / "models", cache / "runs", cache)
    with on_board("host", ("c:generic", "c:generic"), space, 600.0, print) as tests:
        yield tests


@pytest.mark.parametrize("name", SLICE)
def test_the_board_computes_what_the_specification_states(board: BoardTests, cases: dict[str, Case], name: str) -> None:
    specified = conformance.outcome(cases[name])
    assert specified.result in (PASS, REFUSED)
    places = ("prepost by hardware",) if specified.result == PASS else ()
    assert board.outcome(cases[name]) == replace(specified, ran_on=places)


class OneBitWrong(BoardTests):
    """A board of which one bit of the last activation is wrong."""

    def _computed(self, plan: Plan, vectors: Array) -> Sequence[Array]:
        activations = list(super()._computed(plan, vectors))
        flipped = activations[-1].copy()
        flipped.view(np.uint8).reshape(-1)[0] ^= 1
        return [*activations[:-1], flipped]


def test_one_wrong_bit_is_wrong(board: BoardTests, cases: dict[str, Case]) -> None:
    wrong = OneBitWrong(board.profile, board.connection, board.cache, board.items)
    outcome = wrong.outcome(cases["test_max_int8"])
    assert outcome.result == WRONG
    assert "1 of 3 values differ, the first is 2 and not 3" in outcome.reason


def test_a_target_without_the_layer_refuses_by_name(board: BoardTests, cases: dict[str, Case]) -> None:
    outcome = replace(board, items=("vitis", "vitis")).outcome(cases["test_max_int8"])
    assert outcome.result == REFUSED
    assert "vitis" in outcome.reason
