"""What is told of two measurements that were not made alike."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.runs.measurement.config_diff import LONGEST, changed

DOCUMENT: dict[str, Any] = {
    "bundle": {"sha256": "ab" * 32, "compiler": "gcc 12", "flags": ["-O3", "-g"]},
    "plan": {
        "sync": "barrier",
        "items": [{"name": "network", "target": "c", "core": 1}],
        "tasks": [{"layer": "dense", "columns": [0, 5], "item": "network", "stage": 0}],
    },
    "measured": {
        "options": ["--pin", "1"], "samples": 100, "warmup": 10, "duration_s": None, "fifo": 80,
        "memory_locked": True, "dma_latency_held": True,
    },
    "stimuli": {"sha256": "cd" * 32},
    "clock": {"source": "CNTVCT"},
    "load": {"argv": []},
    "state": {"settings": [{"path": "governor", "reached": "performance"}], "throttled": []},
    "harness": {"version": "0.1.0", "revision": "abc"},
    "board": {"environment": {"kernel": "Linux 5.10", "boot_id": "1", "clock": "2026-11-22T12:00:00Z"}},
}  # fmt: skip


def altered(path: str, value: Any) -> dict[str, Any]:
    """The document with another value at the path."""
    document = copy.deepcopy(DOCUMENT)
    *folders, last = path.split("/")
    place: Any = document
    for folder in folders:
        place = place[int(folder) if folder.isdigit() else folder]
    place[last] = value
    return document


def test_the_same_again_changes_nothing() -> None:
    again = altered("board/environment/boot_id", "2")
    again["board"]["environment"]["clock"] = "2026-11-23T12:00:00Z"
    assert changed(DOCUMENT, again) == []


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("bundle/compiler", "gcc 13", ("compiler", "gcc 12", "gcc 13")),
        ("bundle/flags", ["-O2"], ("flags", "-O3 -g", "-O2")),
        ("bundle/sha256", "ef" * 32, ("program", "ab" * 8, "ef" * 8)),
        ("plan/items/0/target", "c:vector", ("items", "network: c on core 1", "network: c:vector on core 1")),
        ("plan/items/0/core", None, ("items", "network: c on core 1", "network: c")),
        ("plan/tasks/0/stage", 1, ("tasks", "dense 0..5 by network in stage 0", "dense 0..5 by network in stage 1")),
        ("plan/sync", "flag", ("hand-over", "barrier", "flag")),
        ("measured/fifo", None, ("SCHED_FIFO", "80", "nothing")),
        ("measured/warmup", 0, ("warm-up", "10", "0")),
        ("measured/memory_locked", False, ("memory locked", "True", "False")),
        ("stimuli/sha256", "00" * 32, ("vectors", "cd" * 8, "00" * 8)),
        ("state/settings", [], ("settings of the board", "governor: performance", "nothing")),
        ("state/throttled", ["cpu0 grew by 3"], ("throttled", "nothing", "cpu0 grew by 3")),
        ("board/environment/kernel", "Linux 6.1", ("board, kernel", "Linux 5.10", "Linux 6.1")),
        ("board/environment/governor", "performance", ("board, governor", "nothing", "performance")),
    ],
)
def test_what_is_not_as_it_was_is_named(path: str, value: Any, told: tuple[str, str, str]) -> None:
    [found] = changed(DOCUMENT, altered(path, value))
    assert (found["topic"], found["base"], found["new"]) == told


def test_what_an_earlier_version_did_not_tell_is_nothing() -> None:
    old = copy.deepcopy(DOCUMENT)
    del old["measured"]["options"]
    assert changed(old, DOCUMENT) == [{"topic": "options of the program", "base": "nothing", "new": "--pin 1"}]


def test_a_long_text_is_cut_where_it_can_be_seen() -> None:
    [found] = changed(DOCUMENT, altered("bundle/compiler", "x" * 1000))
    assert found["new"] == "x" * LONGEST + "…"
