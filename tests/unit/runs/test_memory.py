"""Chunks and blocks follow from budgets in bytes."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.boards.profile import Profile, restored
from harness.boards.workspace import Workspace
from harness.build import bundle, codegen
from harness.core.arrays import MEMORY_BUDGET
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.plan import planner
from harness.plan.plan import buffer_bytes
from harness.runs import job
from harness.runs.job import LARGEST_CHUNK, Request, _chunk, default_chunk, default_fetch, vector_bytes
from tests.support import builders
from tests.support.programs.board_program import parse


@pytest.fixture(scope="module")
def net() -> Network:
    """4 inputs, 4 codes, 3 codes, 2 codes, 2 floats, 1 index"""
    return parse(builders.random_network(np.random.default_rng(1), (4, 3, 2), dequantize=True, argmax=True))


def test_a_vector_of_a_chunk_takes_its_inputs_and_its_activations_twice(net: Network) -> None:
    assert vector_bytes(net) == 4 * 4 + 2 * (4 + 3 + 2 + 2 * 4 + 8) == 66


@pytest.mark.parametrize(
    ("vectors", "chunk"), [(1 << 30, LARGEST_CHUNK), (LARGEST_CHUNK, LARGEST_CHUNK), (9999, 9999), (1, 1), (0, 1)]
)
def test_a_chunk_has_as_many_vectors_as_fit(
    net: Network, vectors: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "CHUNK_BUDGET", vectors * 66 + 65)
    assert default_chunk(net) == chunk


def test_a_chunk_that_was_asked_for_is_kept_if_it_fits(net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Request("host", "m", chunk=30_000)
    assert _chunk(Request("host", "m"), net, 10**6) == LARGEST_CHUNK
    assert _chunk(asked, net, 10**6) == 30_000
    monkeypatch.setattr(job, "MEMORY_BUDGET", 2 << 20)
    assert (2 << 20) // 66 == 31_775
    assert _chunk(asked, net, 10**6) == 30_000
    asked = Request("host", "m", chunk=31_776)
    assert _chunk(asked, net, 31_775) == 31_776, "no chunk has more vectors than the run"
    with pytest.raises(RequestError, match=r"^--chunk 31776: .* take 3 MiB, and the limit is 2 MiB$"):
        _chunk(asked, net, 31_776)
    assert MEMORY_BUDGET == 512 << 20


@pytest.mark.parametrize(
    ("split", "buffers"),
    [((), 4 * 4 + 4 + 3 + 2 + 2 * 4 + 8), (("layer_0=prepost+network",), 4 * 4 + 4 + 3 + 2 + 2 * 4 + 8 + 3)],
    ids=["whole layers", "a split layer is merged for its reader"],
)
@pytest.mark.parametrize("pipeline", [False, True])
def test_the_buffers_of_a_block_are_those_of_the_program(
    split: tuple[str, ...], buffers: int, pipeline: bool, net: Network, host: Profile
) -> None:
    words = (*split, *(["pipeline"] if pipeline else []))
    plan = planner.make(net, host, split=words, block=7)
    generated = codegen.generate(plan)
    tables = {table.name for table in generated.tables}
    assert 7 * buffer_bytes(net, plan.tasks) == sum(s.size for s in generated.storage if s.name not in tables)
    if not pipeline:
        assert buffer_bytes(net, plan.tasks) == buffers


@pytest.mark.parametrize(("budget_mib", "block"), [(512, 1_000_000), (16, 409_200), (1, 25_575)])
def test_a_block_has_as_many_vectors_as_the_budget_has_room_for(
    budget_mib: int, block: int, net: Network, host: Profile
) -> None:
    board = host.model_copy(update={"block": 1_000_000, "memory_budget_mib": budget_mib})
    plan = planner.make(net, board)
    assert buffer_bytes(net, plan.tasks) == 41
    assert plan.block == block
    bundle.check_targets(plan, board)
    assert planner.make(net, host).block == 1000


def test_a_block_that_was_asked_for_is_refused_if_it_does_not_fit(net: Network, host: Profile) -> None:
    board = host.model_copy(update={"memory_budget_mib": 1})
    bundle.check_targets(planner.make(net, board, block=25_575), board)
    with pytest.raises(
        RequestError, match=r"a block of 25,576 vectors take 2 MiB, and the memory budget is 1 MiB"
    ) as caught:
        bundle.check_targets(planner.make(net, board, block=25_576), board)
    assert caught.value.hint.startswith("use --block 25575 or less, or raise memory_budget_mib")


def test_a_run_keeps_a_budget_other_than_the_default(host: Profile) -> None:
    assert "memory_budget_mib" not in host.kept()
    assert restored(host.kept()).memory_budget_mib == 512
    other = host.model_copy(update={"memory_budget_mib": 64})
    assert other.kept()["memory_budget_mib"] == 64
    assert restored(other.kept()) == other


@pytest.mark.parametrize(("vectors", "fetch"), [(1, "all"), (100, "all"), (101, "mismatch"), (10**6, "mismatch")])
def test_all_dumps_are_fetched_up_to_a_size(
    net: Network, vectors: int, fetch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "FETCHED_BYTES", 100 * 66)
    assert default_fetch(net, vectors) == fetch


@pytest.mark.parametrize(
    ("fetch", "free", "hint"),
    [
        ("all", 66 * 1000, None),
        ("all", 66 * 1000 - 1, "use --vectors 999 or less or --fetch mismatch, or a --run-folder on another disk"),
        ("all", 16 * 1000 - 1, "use --vectors 242 or less, or a --run-folder on another disk"),
        ("all", 0, "free disk space, or a --run-folder on another disk"),
        ("mismatch", 16 * 1000, None),
        ("mismatch", 16 * 1000 - 1, "use --vectors 999 or less, or a --run-folder on another disk"),
    ],
)
def test_a_run_that_the_disk_has_no_room_for_is_refused(
    net: Network, fetch: str, free: int, hint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    request = Request("host", "m", fetch=fetch, run_folder=str(tmp_path / "new" / "run"))
    if hint is None:
        job._require_space(request, Workspace(*[tmp_path] * 4), net, 1000)
        return
    with pytest.raises(RequestError, match=r"takes 1 MiB for 1,000 vectors, and .* has 0 MiB free$") as caught:
        job._require_space(request, Workspace(*[tmp_path] * 4), net, 1000)
    assert caught.value.hint == hint
    with pytest.raises(RequestError) as caught:
        job._require_space(request, Workspace(*[tmp_path] * 4), net, 1000, needs_all=True)
    assert caught.value.hint == hint.replace(" or --fetch mismatch", "")
