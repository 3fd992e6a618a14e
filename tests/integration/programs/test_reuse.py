"""Programs whose buffers share bytes: the bits stay, the proof's questions still work, wrong offsets are found."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from harness.analysis.proof import structure
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.file_digest import file_sha256
from harness.plan import conformance, launches, planner
from harness.plan.plan import Plan, Sync, Task
from tests.integration.programs.test_questions import ask, rows
from tests.integration.programs.test_split import LISTING_2, SPLITS, SYNCS, Subject, allocations, board, disturbances
from tests.support.dags import listing_2, random_dag
from tests.support.examples import alternating, examples
from tests.support.programs.board_program import BoardProgram, Patch, build_patched, parse

__all__ = ["board"]  # a fixture

BLOCK = 10


@pytest.fixture(scope="module")
def listing() -> Subject:
    return Subject.of(parse(listing_2()))


def reusing(subject: Subject, board: Profile, split: Sequence[str], sync: Sync = "barrier") -> Plan:
    plan = planner.make(subject.network, board, block=BLOCK, split=tuple(split), sync=sync, buffers="reuse")
    assert conformance.check(plan) == ()
    assert plan.kept[-1]
    return plan


def differing(made: Plan, program: BoardProgram, subject: Subject, folder: Path, *options: object) -> list[str]:
    """The layers that are kept and not as expected; of the others nothing is dumped."""
    found = program.activations(subject.vectors, folder, *options)
    assert all(
        actual.shape == (len(subject.vectors), 0) for actual, kept in zip(found, made.kept, strict=True) if not kept
    )
    layers = zip(subject.network.layers, found, subject.expected, made.kept, strict=True)
    return [layer.name for layer, actual, right, kept in layers if kept and actual.tobytes() != right.tobytes()]


@pytest.mark.parametrize(("split", "sync"), alternating({"one item": ("e1..advisory=first",)} | SPLITS, SYNCS))
def test_the_bits_stay_whichever_item_is_slower(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path, split: tuple[str, ...], sync: Sync
) -> None:
    plan = reusing(listing, board, split, sync)
    assert plan.depth > 1 or not all(plan.kept)
    program = build_patched(plan, board, tmp_path / "bundle", flags=["-Wall", "-Wextra", "-Werror"], objects=objects)
    for number, options in enumerate(disturbances(plan)):
        assert differing(plan, program, listing, tmp_path / str(number), *options) == [], options


@examples(6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 10_000), sync=st.sampled_from(SYNCS))
def test_the_bits_stay_whatever_the_network_and_the_split(
    board: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int, sync: Sync
) -> None:
    subject = Subject.of(parse(random_dag(np.random.default_rng(seed), data.draw(st.integers(3, 9)))))
    made, folder = (
        reusing(subject, board, data.draw(allocations(subject.network)), sync),
        tmp_path_factory.mktemp("reuse"),
    )
    program = build_patched(made, board, folder / "bundle", objects=objects)
    assert differing(made, program, subject, folder, "--random-delay", "100:1") == []


@pytest.mark.parametrize("split", [("e1..advisory=first",), LISTING_2], ids=["one item", "branches"])
def test_every_launch_gives_what_its_task_computes(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path, split: tuple[str, ...]
) -> None:
    """The patterns with which the program fills its buffers agree where these share bytes."""
    plan = reusing(listing, board, split)
    program = build_patched(plan, board, tmp_path / "bundle", objects=objects)
    for launch in launches.planned_launches(plan):
        [task] = launch.tasks
        sources = [
            listing.expected[s.layer][:, s.start : s.stop] if isinstance(s, Task) else listing.vectors
            for s in launch.sources
        ]
        answer = ask(program, tmp_path, rows(sources), "--task", task.name, "--random-block", 1, "--executions", 300)
        assert answer["fault"] == ""
        found = np.load(tmp_path / f"{task.name}.npy")
        assert found.tobytes() == listing.expected[task.layer][:, task.start : task.stop].tobytes()


def test_a_buffer_over_another_that_is_needed_is_found_before_the_run_and_by_its_bits(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path
) -> None:
    """o3 and o4 are written while o2 and o1 are still to be read by them or others."""
    right = reusing(listing, board, ["e1..advisory=first"])
    offsets = {task.name: task.offset for task in right.tasks}
    tasks = tuple(dataclasses.replace(t, offset=offsets["o1"]) if t.name == "o2" else t for t in right.tasks)
    broken = dataclasses.replace(right, tasks=tasks)
    found = conformance.check(broken)
    assert {each.kind for each in found} == {"overwrite"}
    assert found[0].text.startswith("o1 and o2 share bytes")
    program = build_patched(broken, board, tmp_path / "bundle", objects=objects)
    assert differing(broken, program, listing, tmp_path / "out")


def answers(made: Plan, program: BoardProgram) -> dict[str, str]:
    """The counterexamples to the questions about the program's file by their statements."""
    deployed = program.path, file_sha256(program.path)
    asked = structure.questions(codegen.generate(made), deployed)
    return {question.statement: found for question in asked if (found := question.answer(lambda _: None))}


def test_the_structure_of_a_program_with_an_arena_is_proved(listing: Subject, board: Profile, tmp_path: Path) -> None:
    plan = reusing(listing, board, LISTING_2)
    assert answers(plan, build_patched(plan, board, tmp_path / "bundle")) == {}


def test_a_buffer_at_another_offset_is_found(listing: Subject, board: Profile, tmp_path: Path) -> None:
    plan = reusing(listing, board, LISTING_2)
    offsets = {task.name: (task.offset or 0) * BLOCK for task in plan.tasks}
    moved = Patch(
        "network.c", f".set o2_output, arena + {offsets['o2']}\\n", f".set o2_output, arena + {offsets['o2'] + 256}\\n"
    )
    found = answers(plan, build_patched(plan, board, tmp_path / "bundle", [moved]))
    statement = "buffers that share bytes are at the offsets of the plan, where no two are needed at the same time"
    assert found[statement] == f"o2_output is at byte {offsets['o2'] + 256} of the arena, the plan says {offsets['o2']}"


def test_a_forward_that_writes_into_the_bytes_of_others_is_found(
    listing: Subject, board: Profile, tmp_path: Path
) -> None:
    plan = reusing(listing, board, LISTING_2)
    call = "o2_forward(size_t vectors, uint64_t execution __attribute__((unused)))\n{"
    free = max(
        range(0, plan.arena * BLOCK, 256), key=lambda at: at not in {(t.offset or 0) * BLOCK for t in plan.tasks}
    )
    for statement in (f"arena[{free}] = 1;", "o1_output[0][0] = 1;"):
        patch = Patch("network.c", call, f"{call}\n    {statement}")
        assert answers(plan, build_patched(plan, board, tmp_path / "bundle", [patch]))
