"""ThreadSanitizer builds: right plans have no race, programs with shared objects do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.analysis.proof import races
from harness.boards.profile import ItemProfile, Profile
from harness.build import bundle, codegen
from harness.core.errors import ToolError
from harness.plan import planner
from harness.plan.plan import Plan, Sync
from tests.support.conformance.plans import chain, without
from tests.support.dags import listing_2
from tests.support.examples import alternating
from tests.support.programs.board_program import Patch, parse

pytestmark = pytest.mark.usefixtures("kept_objects")

LISTING = parse(listing_2())
BRANCHES = ("e1..out=first", "advisory=first", "o2..o3=second", "o4..o5=third")
SPLITS = {"branches": BRANCHES, "parallel": ("parallel",), "pipeline": (*BRANCHES, "pipeline")}
SHARED_SCRATCH = Patch(
    "kernels/c/qgemm.h",
    "int32_t sum[QGEMM_ROWS] = {0};",
    "static int32_t sum[QGEMM_ROWS]; for (size_t r = 0; r < rows; ++r) sum[r] = 0;",
)
RELAXED_FLAG = Patch("kernels/program/schedule.c", "memory_order_release", "memory_order_relaxed")


@pytest.fixture(scope="module")
def board(host: Profile) -> Profile:
    """Return a board of three items, the first of which computes all that no split gives to another."""
    items = {name: ItemProfile(target="c") for name in ("first", "second", "third")}
    return host.model_copy(update={"items": items})


def race(made: Plan, board: Profile, folder: Path, *patches: Patch) -> str:
    """Return the race that is found in the plan's program, built from patched sources."""
    recipe = bundle.recipe_of(codegen.generate(made), board)
    sources = recipe.sources
    for patch in patches:
        sources = patch.apply(sources)
    for path, content in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return races.find_race(codegen.generate(made), board, folder, lambda _: None)


def made(board: Profile, split: Sequence[str], sync: Sync = "barrier") -> Plan:
    return planner.make(LISTING, board, block=10, split=split, sync=sync)


@pytest.mark.parametrize(("split", "sync"), alternating(SPLITS, ["barrier", "flag"]))
def test_a_right_plan_has_no_race(board: Profile, split: Sequence[str], sync: Sync, tmp_path: Path) -> None:
    assert race(made(board, split, sync), board, tmp_path) == ""


@pytest.mark.campaign
@pytest.mark.parametrize("items", [("c", "cuda:fused"), ("c", "tiovx:c7x"), ("c", "vitis")])
def test_a_plan_with_a_simulated_accelerator_has_no_race(host: Profile, items: Sequence[str], tmp_path: Path) -> None:
    assert race(planner.make(chain(), host, items, block=10), host, tmp_path) == ""


ON_A_GPU = ("e1..o1=first", "o2..o3=second", "o4..o5=third")


def gpu_items(host: Profile) -> Profile:
    """Return a board whose three items are its GPU."""
    items = {name: ItemProfile(target="cuda:layerwise") for name in ("first", "second", "third")}
    return host.model_copy(update={"items": items})


@pytest.mark.campaign
@pytest.mark.parametrize("seed", ["0", "1", "2"])
@pytest.mark.parametrize("sync", ["barrier", "flag"])
def test_items_on_one_gpu_have_no_race(
    host: Profile, sync: Sync, seed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_SIMULATED_STREAMS", seed)
    assert race(made(gpu_items(host), ON_A_GPU, sync), gpu_items(host), tmp_path) == ""


@pytest.mark.campaign
def test_items_on_one_gpu_that_no_event_orders_are_reported(host: Profile, tmp_path: Path) -> None:
    wrong = Patch("network.c", "o6_launch_awaited[] = {&o2_launch, &o4_launch", "o6_launch_awaited[] = {&o2_launch")
    assert race(made(gpu_items(host), ON_A_GPU), gpu_items(host), tmp_path, wrong) == (
        "o6_forward reads memory of the GPU that o5_forward writes on another stream, and neither an event nor a wait "
        "orders the two"
    )


def test_a_scratch_array_that_two_items_share_is_reported(board: Profile, tmp_path: Path) -> None:
    found = race(made(board, SPLITS["parallel"]), board, tmp_path, SHARED_SCRATCH)
    assert found.startswith("data race kernels/c/qgemm.h:")


def test_a_flag_without_release_order_is_reported(board: Profile, tmp_path: Path) -> None:
    assert "data race" in race(made(board, BRANCHES, "flag"), board, tmp_path, RELAXED_FLAG)


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_barrier_that_is_left_out_is_reported(board: Profile, tmp_path: Path, left_out: int) -> None:
    right = made(board, BRANCHES)
    broken = without(right, right.hand_overs[left_out].name)
    assert "data race" in race(broken, board, tmp_path)


def test_a_program_that_fails_for_another_reason_is_a_tool_error(board: Profile, tmp_path: Path) -> None:
    crash = Patch("kernels/program/schedule.c", "static void run_steps(", "#include <stdlib.h>\nstatic void run_steps(")
    ends = Patch("kernels/program/schedule.c", "    meter_open();\n", "    abort();\n")
    with pytest.raises(ToolError, match="ThreadSanitizer build of inference failed"):
        race(made(board, BRANCHES), board, tmp_path, crash, ends)


def test_the_sources_of_the_bundle_are_compiled_not_generated_again(board: Profile, tmp_path: Path) -> None:
    right = made(board, BRANCHES)
    network = codegen.generate(right).source
    broken = Patch("network.c", network, f"{network}#error from the bundle\n")
    with pytest.raises(ToolError, match="from the bundle"):
        race(right, board, tmp_path, broken)
