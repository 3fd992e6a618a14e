from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.nightly.history.difference import Change, LayerChange, difference, headline
from tests.support.history.laboratory import make_wrong, run_document
from tests.support.measurement import documents


@pytest.fixture
def before() -> dict[str, Any]:
    return run_document("xavier", "acas_coc") | {"content_sha256": "ab" * 32}


@pytest.fixture
def after(before: dict[str, Any]) -> dict[str, Any]:
    """The same again, at another time."""
    other = {"started": "2026-11-23T02:00:00Z", "finished": "2026-11-23T02:00:25Z", "wall_s": 25.0}
    attempts = [{"began": "x", "part": "board", "reason": "y"}, {"began": "z", "part": "", "reason": ""}]
    found = copy.deepcopy(before) | other | {"attempts": attempts, "command": ["harness", "run", "--plan", "p"]}
    found["bundle"]["reused"] = False
    found["board"]["environment"]["clock"] = "2026-11-23T02:00:01Z"
    return found


def test_nothing_that_matters_changed(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = difference(before, after)
    assert (found.results, found.layers, found.causes, found.nothing) == ((), (), (), True)
    assert headline(found, before, after) == "no relevant change: both are identical"


def test_the_verdict_comes_first_then_the_layers(before: dict[str, Any], after: dict[str, Any]) -> None:
    make_wrong(after)
    found = difference(before, after)
    assert found.results == (Change("verdict", "identical", "differs"),)
    assert found.layers == (LayerChange("dense_3", 0, 7),)
    assert not found.nothing
    assert headline(found, before, after) == "identical before, differs now"


@pytest.mark.parametrize(
    ("counts", "words"),
    [((0, 7), "differs now"), ((7, 0), "differs no more"), ((7, 7), "differs as before"), ((7, 8), "still differs"),
     ((None, 1), "differs now"), ((1, None), "differs no more")],
)  # fmt: skip
def test_what_became_of_a_layer(counts: tuple[int | None, int | None], words: str) -> None:
    assert LayerChange("x", *counts).words == words


def test_a_layer_that_differs_as_before_is_shown_and_is_no_change(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    for document in (before, after):
        make_wrong(document)
    found = difference(before, after)
    assert found.layers == (LayerChange("dense_3", 7, 7),)
    assert found.nothing
    make_wrong(after, layer=4)
    assert not difference(before, after).nothing
    assert headline(difference(before, after), before, after) == "both differ, but not in the same way"


CHANGES: dict[str, Any] = {
    "model": ("model", "name", "acas_wl"),
    "model, SHA-256": ("model", "sha256", "0" * 64),
    "compiler": ("bundle", "compiler", "clang 22"),
    "flags": ("bundle", "flags", ["-O2"]),
    "program": ("bundle", "sha256", "1" * 64),
    "harness": ("harness", "revision", "fff-dirty"),
    "board": ("board", "name", "orin"),
    "kind of board": ("board", "kind", "emulated"),
    "board, kernel": ("board", "environment", {"kernel": "Linux 6", "memory": "MemTotal: 983032 kB"}),
    "hand-over": ("plan", "sync", "flag"),
    "buffers": ("plan", "arena", 256),
    "block": ("plan", "block", 1),
    "vectors": ("stimuli", "sha256", "2" * 64),
    "reference: onnxruntime": ("reference", "onnxruntime", "1.30.0"),
    "reference: instruction set": ("reference", "isa", "avx2"),
}


@pytest.mark.parametrize("topic", CHANGES)
def test_what_may_explain_it_is_named(before: dict[str, Any], after: dict[str, Any], topic: str) -> None:
    part, key, value = CHANGES[topic]
    after[part][key] = value
    found = difference(before, after)
    assert [change.topic for change in found.causes] == [topic]
    assert not found.nothing
    assert headline(found, before, after) == "both are identical; 1 possible causes changed"


def test_the_items_and_where_they_ran(before: dict[str, Any], after: dict[str, Any]) -> None:
    after["plan"]["items"][1] |= {"target": "c:vector", "ran_on": "emulated-cpu"}
    found = {change.topic: change.after for change in difference(before, after).causes}
    assert found == {
        "items ran on": "prepost: hardware; network: emulated-cpu",
        "items": "prepost: c on core 0; network: c:vector on core 1",
    }


def test_causes_stand_in_the_order_in_which_they_matter(before: dict[str, Any], after: dict[str, Any]) -> None:
    for topic in reversed(CHANGES):
        part, key, value = CHANGES[topic]
        after[part][key] = value
    assert [change.topic for change in difference(before, after).causes] == list(CHANGES)


def test_other_bytes_for_the_same_question_are_told(before: dict[str, Any], after: dict[str, Any]) -> None:
    after["content_sha256"] = "cd" * 32
    assert not difference(before, after).nothing
    [change] = difference(before, after).results
    assert (change.topic, change.after) == ("content, SHA-256", "cd" * 8)
    after["chunk"] = 5000  # other files, so other hashes
    assert [one.topic for one in difference(before, after).results] == []


def test_a_proof_that_is_new_is_told(before: dict[str, Any], after: dict[str, Any]) -> None:
    after["proof"] = {"holds": False}
    assert difference(before, after).results == (Change("proof", "nothing", "fails"),)


def test_measurements_have_their_settings(before: dict[str, Any]) -> None:
    one = documents.timed(documents.gumbel(1000))
    two = copy.deepcopy(one)
    assert difference(one, two).nothing
    two["state"]["settings"][0]["reached"] = "schedutil"
    two["clock"]["source"] = "CLOCK_MONOTONIC"
    two["measured"]["fifo"] = None
    assert [change.topic for change in difference(one, two).causes] == ["clock", "settings of the board", "SCHED_FIFO"]
    two["outputs"]["differing"] = 2
    assert difference(one, two).results == (Change("wrong outputs", "0", "2"),)
    assert difference(before, one).causes[0] == Change("what was done", "run", "measure")


@pytest.mark.parametrize("judged", [["unchanged"], ["inconclusive"], []])
def test_times_that_stay_are_nothing(before: dict[str, Any], after: dict[str, Any], judged: list[str]) -> None:
    assert headline(difference(before, after), before, after, judged).startswith("no relevant change")


def test_times_that_moved_are_something(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = headline(difference(before, after), before, after, ["slower", "unchanged", "slower", "faster"])
    assert found == "both are identical, but times moved: slower and faster"


@pytest.mark.slow
def test_of_two_kinds_of_run_only_what_one_of_them_says_is_told(before: dict[str, Any]) -> None:
    found = difference(before, documents.timed(documents.gumbel(2000)))
    assert "scope" in {one.topic for one in found.causes}
    assert [one.topic for one in found.causes if one.before == one.after] == []
