"""Bounds of programs for processors without an operating system: the counted instructions, and wrong loop bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.applications.wcet.bounds import of_program
from harness.boards.profile import BoardProfiles, Profile
from harness.build import codegen
from harness.core.errors import ToolError
from harness.model.network import Network
from harness.plan import planner
from tests.support.programs.board_program import Patch, build_patched
from tests.support.programs.convolutions import random_convolutions
from tests.support.wcet import WRONG_LOOPS, bounded, dense


@pytest.fixture(scope="module", autouse=True)
def _programs_share_what_they_can(kept_objects: None) -> None:
    """To compile takes longer than to run."""


def images() -> Network:
    return random_convolutions(np.random.default_rng(8), 2, "int8", "int8", 2)


def with_target(board: Profile, target: str, flags: tuple[str, ...]) -> Profile:
    items = {name: item.model_copy(update={"target": target}) for name, item in board.items.items()}
    toolchain = board.toolchain.model_copy(update={"flags": (*board.toolchain.flags, *flags)})
    return board.model_copy(update={"items": items, "toolchain": toolchain})


@pytest.mark.parametrize(
    ("name", "net", "target", "flags"),
    [
        pytest.param("cortex-m4", dense(), "c:generic", (), id="M4, dense"),
        pytest.param("cortex-m7", images(), "c:inlined", ("-O3",), id="M7, images, inlined, -O3"),
        pytest.param("cortex-m4", images(), "c", ("-O1",), id="M4, images, -O1", marks=pytest.mark.campaign),
        pytest.param(
            "cortex-m7", dense(), "c:unrolled", ("-O1",), id="M7, dense, unrolled", marks=pytest.mark.campaign
        ),
    ],
)
def test_the_bound_is_the_count(
    laboratory: BoardProfiles,
    name: str,
    net: Network,
    target: str,
    flags: tuple[str, ...],
    tmp_path: Path,
    objects: Path,
) -> None:
    """Functions of libgcc and of kernels/bare are part of the program, so nothing is assumed."""
    board = with_target(laboratory.board(name), target, flags)
    result = bounded(net, board, tmp_path, objects)
    for layer in result.bounds.layers:
        counted = result.counted[layer.function]
        assert layer.library == counted.most_in_libraries == 0
        assert counted.most <= layer.instructions
        if not layer.decided_by_data:
            assert counted.most == layer.instructions
    assert not all(layer.decided_by_data for layer in result.bounds.layers)
    assert result.ratio < 1.05
    assert max(result.bounds.threads.values()) > max(layer.stack for layer in result.bounds.layers)


@pytest.mark.parametrize(("wrong", "words"), WRONG_LOOPS.values(), ids=WRONG_LOOPS)
def test_a_wrong_loop_bound_is_found(
    laboratory: BoardProfiles, wrong: Patch, words: str, tmp_path: Path, objects: Path
) -> None:
    board = with_target(laboratory.board("cortex-m4"), "c:generic", ("-O1",))
    plan = planner.make(dense(), board, block=1)
    built = build_patched(plan, board, tmp_path, [wrong], objects=objects)
    with pytest.raises(ToolError) as error:
        of_program(codegen.generate(plan), built.path)
    assert "the loops of the program are not those of the plan" in error.value.message
    assert words in error.value.message


def test_a_longer_loop_has_a_greater_bound(laboratory: BoardProfiles, tmp_path: Path, objects: Path) -> None:
    """A layer that computes its sums twice has the accesses of the plan, and a greater bound."""
    board = laboratory.board("cortex-m4")
    plan = planner.make(dense(), board, block=1)
    generated = codegen.generate(plan)
    built = build_patched(plan, board, tmp_path / "right", objects=objects)
    right = of_program(generated, built.path).layers[1]
    [call] = [line for line in generated.source.splitlines() if "layer_0_accumulate(" in line and line.endswith(";")][
        :1
    ]
    built = build_patched(plan, board, tmp_path / "wrong", [Patch("network.c", call, f"{call}{call}")], objects=objects)
    twice = of_program(generated, built.path).layers[1]
    assert right.instructions * 1.3 < twice.instructions < right.instructions * 2.1


def test_low_overhead_loops_are_refused(laboratory: BoardProfiles, tmp_path: Path, objects: Path) -> None:
    """The disassembler does not know dls and le of Armv8.1-M: such a function has no bound."""
    board = laboratory.board("cortex-m55")
    plan = planner.make(dense(), board, block=1)
    built = build_patched(plan, board, tmp_path, objects=objects)
    with pytest.raises(ToolError, match="are no instruction that is known"):
        of_program(codegen.generate(plan), built.path)
