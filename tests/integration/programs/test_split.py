"""Networks split over items: the bits stay, the traces are paths of the net, and broken plans are found.

A broken plan must be found twice: by the check before it runs, and with that switched off by what it does on the board.
"""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from harness.boards.profile import ItemProfile, Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.plan import conformance, planner
from harness.plan.conformance import Conformance
from harness.plan.plan import Cross, Plan, Sync
from harness.reference import Reference
from harness.reference.stimuli import stimuli
from tests.support.conformance.plans import without
from tests.support.dags import listing_2, random_dag
from tests.support.examples import alternating, examples
from tests.support.programs.board_program import BoardProgram, Patch, build_patched, parse, run_sanitized, with_flags

VECTORS, BLOCK = 130, 10
EXECUTIONS = -(-VECTORS // BLOCK)
ITEMS = ("first", "second", "third")
SYNCS: tuple[Sync, ...] = ("barrier", "flag")
LISTING_2 = ("e1..out=first", "advisory=first", "o2..o3=second", "o4..o5=third")
SPLITS = {
    "offload": LISTING_2[:3],
    "branches": LISTING_2,
    "parallel layer": ("o1=first+second+third", "o5=second+first"),
    "parallel, all": ("parallel",),
    "pipeline": (*LISTING_2, "pipeline"),
    "parallel layers in a pipeline": (*LISTING_2, "o1=second+third", "o3=first+second", "pipeline"),
}


@pytest.fixture(scope="module")
def board(host: Profile) -> Profile:
    """Three items, the first of which computes what no split gives to another."""
    items = {name: ItemProfile(target="c") for name in ITEMS}
    return with_flags(host.model_copy(update={"items": items}), "-O1")


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """A network, vectors, and what the reference makes of them."""

    network: Network
    vectors: Array
    expected: tuple[Array, ...]

    @classmethod
    def of(cls, net: Network) -> Subject:
        vectors = stimuli(net, VECTORS, seed=1).chunk(0, VECTORS)
        return cls(net, vectors, Reference(net).activations(vectors))


@pytest.fixture(scope="module")
def listing() -> Subject:
    return Subject.of(parse(listing_2()))


def differing(program: BoardProgram, subject: Subject, folder: Path, *options: object) -> list[str]:
    """The layers that are not as expected; the trace stays in `folder`."""
    found = program.activations(subject.vectors, folder, "--trace", *options)
    layers = zip(subject.network.layers, found, subject.expected, strict=True)
    return [layer.name for layer, actual, expected in layers if actual.tobytes() != expected.tobytes()]


def replayed(made: Plan, folder: Path) -> Conformance:
    return conformance.replay(made, conformance.arrange(made, conformance.read(folder / "trace.jsonl"), EXECUTIONS))


def disturbances(made: Plan) -> Iterator[tuple[str, ...]]:
    yield ()
    yield ("--random-delay", "200:1")
    yield from (("--delay", f"{item.name}:300") for item in made.items)


@pytest.mark.parametrize(("split", "sync"), alternating(SPLITS, SYNCS))
def test_a_split_network_is_the_network_and_its_traces_conform(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path, split: tuple[str, ...], sync: Sync
) -> None:
    plan = planner.make(listing.network, board, block=BLOCK, split=split, sync=sync)
    assert conformance.check(plan) == ()
    program = build_patched(plan, board, tmp_path / "bundle", objects=objects)
    for number, options in enumerate(disturbances(plan)):
        folder = tmp_path / str(number)
        assert differing(program, listing, folder, *options) == [], options
        assert replayed(plan, folder).violations == (), options


@st.composite
def allocations(draw: st.DrawFn, net: Network) -> tuple[str, ...]:
    """Each layer for an item, or a QGemm's columns for two, in any order."""
    words = []
    for layer in net.layers:
        count = draw(st.integers(1, 2)) if isinstance(layer, QGemm) else 1
        items = draw(st.lists(st.sampled_from(ITEMS), min_size=count, max_size=count, unique=True))
        words.append(f"{layer.name}={'+'.join(items)}")
    staged = len({name for word in words for name in word.partition("=")[2].split("+")}) > 1 and draw(st.booleans())
    return (*words, "pipeline") if staged else tuple(words)


@examples(6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 10_000), sync=st.sampled_from(SYNCS))
def test_whatever_the_network_and_the_split_the_bits_stay_and_the_trace_conforms(
    board: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int, sync: Sync
) -> None:
    subject = Subject.of(parse(random_dag(np.random.default_rng(seed), data.draw(st.integers(3, 9)))))
    plan = planner.make(subject.network, board, block=BLOCK, split=data.draw(allocations(subject.network)), sync=sync)
    assert conformance.check(plan) == ()
    folder = tmp_path_factory.mktemp("split")
    program = build_patched(plan, board, folder / "bundle", objects=objects)
    assert differing(program, subject, folder, "--random-delay", "100:1") == []
    assert replayed(plan, folder).violations == ()


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
def test_the_code_of_a_split_compiles_without_a_warning(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path, split: tuple[str, ...]
) -> None:
    flags = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wpedantic", "-Werror"]
    plan = planner.make(listing.network, board, block=BLOCK, split=split)
    build_patched(plan, board, tmp_path / "bundle", flags=flags, objects=objects)


@pytest.mark.parametrize(("split", "sync"), alternating(SPLITS, SYNCS))
def test_the_thread_sanitizer_finds_no_race_between_items(
    listing: Subject, board: Profile, tmp_path: Path, split: tuple[str, ...], sync: Sync
) -> None:
    plan = planner.make(listing.network, board, block=BLOCK, split=split, sync=sync)
    program = build_patched(plan, board, tmp_path / "bundle", flags=["-fsanitize=thread"])
    done = run_sanitized(program, listing.vectors, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


# Broken plans


def swapped(made: Plan) -> Plan:
    """The first item crosses its first two hand-overs in each other's place."""
    schedule = list(made.schedules[0])
    first, second = [number for number, step in enumerate(schedule) if isinstance(step, Cross)][:2]
    schedule[first], schedule[second] = schedule[second], schedule[first]
    return dataclasses.replace(made, schedules=(tuple(schedule), *made.schedules[1:]))


def single_buffers(made: Plan) -> Plan:
    """Every activation has one buffer, also in a pipeline."""
    return dataclasses.replace(made, tasks=tuple(dataclasses.replace(task, buffers=1) for task in made.tasks))


def listing_plan(listing: Subject, board: Profile, sync: Sync, *more: str) -> Plan:
    return planner.make(listing.network, board, block=BLOCK, split=(*LISTING_2, *more), sync=sync)


def kinds(broken: Plan) -> set[str]:
    return {finding.kind for finding in conformance.check(broken)}


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("hand_over", [0, 1, 2])
def test_a_missing_hand_over_is_found_before_the_run_and_by_its_trace(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path, sync: Sync, hand_over: int
) -> None:
    right = listing_plan(listing, board, sync)
    broken = without(right, right.hand_overs[hand_over].name)
    assert len(right.hand_overs) == 3
    assert kinds(broken) == {"data"}
    program = build_patched(broken, board, tmp_path / "bundle", objects=objects)
    writer = right.items[right.hand_overs[hand_over].writer].name
    wrong = differing(program, listing, tmp_path / "out", "--delay", f"{writer}:10000")
    found = replayed(broken, tmp_path / "out")
    assert wrong
    assert any("before" in violation.text for violation in found.violations)


def test_barriers_in_each_other_s_place_are_found_before_the_run_and_never_end(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path
) -> None:
    broken = swapped(listing_plan(listing, board, "barrier"))
    assert kinds(broken) == {"deadlock"}
    program = build_patched(broken, board, tmp_path / "bundle", objects=objects)
    np.save(tmp_path / "vectors.npy", listing.vectors)
    command = [program.path, "--vectors", tmp_path / "vectors.npy", "--out", tmp_path]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, check=False, timeout=2)


def test_flags_in_each_other_s_place_are_found_before_the_run_and_by_their_trace(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path
) -> None:
    """The flag of o2 is raised before o2 is computed."""
    split = ("o3=second", "o4..o5=third")
    broken = swapped(planner.make(listing.network, board, block=BLOCK, split=split, sync="flag"))
    assert kinds(broken) == {"data"}
    program = build_patched(broken, board, tmp_path / "bundle", objects=objects)
    assert differing(program, listing, tmp_path / "out", "--delay", "first:20000")
    assert any("second began o3" in found.text for found in replayed(broken, tmp_path / "out").violations)


@pytest.mark.parametrize("sync", SYNCS)
def test_a_pipeline_with_single_buffers_is_found_before_the_run_and_by_its_trace(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path, sync: Sync
) -> None:
    broken = single_buffers(listing_plan(listing, board, sync, "pipeline"))
    assert kinds(broken) == {"overwrite"}
    program = build_patched(broken, board, tmp_path / "bundle", objects=objects)
    wrong = differing(program, listing, tmp_path / "out", "--delay", "second:1000")
    assert wrong
    assert any("overwrite" in violation.text for violation in replayed(broken, tmp_path / "out").violations)


def test_a_buffer_with_two_writers_is_found_before_the_run_and_differs(
    listing: Subject, board: Profile, objects: Path, tmp_path: Path
) -> None:
    right = planner.make(listing.network, board, block=BLOCK, split=["o1=first+second"])
    parts = [dataclasses.replace(task, start=0) if task.name == "o1_1" else task for task in right.tasks]
    found = conformance.check(dataclasses.replace(right, tasks=tuple(parts)))
    assert [finding.text for finding in found] == [
        "columns 0 to 3 of layer o1 have two writers: tasks o1_0 and o1_1, of first and second"
    ]
    made = listing_plan(listing, board, "barrier")
    shared = Patch("network.c", "o5_finish(acc, o5_output[v]);", "o5_finish(acc, o3_output[v]);")
    program = build_patched(made, board, tmp_path / "bundle", [shared], objects=objects)
    assert {"o3", "o5"} & set(differing(program, listing, tmp_path / "out"))
