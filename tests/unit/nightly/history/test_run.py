from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.compare import Comparison, Difference
from harness.core.safe_io import LARGEST_DOCUMENT
from harness.nightly.history import run as runs
from harness.nightly.history.run import digest, read
from harness.nightly.history.run_record import Part, State, stamp
from harness.nightly.history.trend import trends
from harness.runs.folder import ChunkRecord, RunFolder, content_sha256, write_json
from harness.targets import HARDWARE
from tests.support.history.laboratory import make_wrong, run_document
from tests.support.identities import HOST
from tests.support.measurement import documents


def timed() -> dict[str, Any]:
    return documents.timed(documents.gumbel(1000))


def write(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "run.json").write_text(text)
    return folder


def test_a_finished_run_is_told_in_one_line() -> None:
    document = run_document("xavier", "acas_coc") | {"content_sha256": "ab"}
    make_wrong(document)
    found = digest("a", document)
    assert (found.state, found.verdict, found.action) == (State.FINISHED, "differs", "run")
    assert (found.board, found.kind, found.model, found.vectors) == ("xavier", "hardware", "acas_coc", 100_000)
    assert found.differing == "dense_3"
    assert found.targets == "c,c"
    assert found.items == "prepost: c on hardware; network: c on hardware"
    assert found.compiler == "aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0"
    assert found.harness == "0.1.0 5f70f162ab40"
    assert (found.content_sha256, found.started, found.wall_s) == ("ab", "2026-11-22T02:00:00Z", 21.9)
    assert not found.parts
    assert not found.met


def test_a_proof_is_one() -> None:
    assert digest("a", run_document("x", "m") | {"proof": {"holds": True}}).action == "prove"


@pytest.mark.slow
def test_of_times_the_largest_median_stands_for_the_whole() -> None:
    base = documents.gumbel(2000)
    document = documents.timed(base // 10, base, base // 40, names=("first", "second", "third"))
    found = digest("a", document)
    summary = document["parts"][1]["summary"]
    p99, p999, _ = (one["value_ns"] for one in summary["quantiles"])
    expected = Part("second", summary["min_ns"], summary["median_ns"], p99, p999, None, summary["max_ns"])
    assert [part.name for part in found.parts] == ["second", "first", "third"]
    assert found.parts[0] == expected
    assert found.parts[0].jitter == summary["max_ns"] - summary["min_ns"]
    assert (found.quantity, found.unit, found.scope, found.load, found.samples) == (
        "time",
        "ns",
        "layer",
        "memory",
        2000,
    )
    assert found.met
    assert found.not_met == ""


def test_history_and_report_have_the_same_headline_with_scope_and_part() -> None:
    """The part with the largest median is not the one with the largest maximum."""
    base = documents.gumbel(2000)
    far_out = base // 10
    far_out[7] = 900_000
    document = documents.timed(far_out, base, names=("first", "second"))
    found = digest("a", document)
    summary = document["parts"][1]["summary"]
    numbers = f"median {summary['median_ns']:,.0f} ns, maximum {summary['max_ns']:,} ns"
    assert found.seen == f"layer second (largest median of 2): {numbers}"
    assert document["reason"] == f"{found.seen} of 2,000 executions"
    assert trends([found], 1)[0].part.name == "second"


def test_of_counts_their_sum_without_those_that_wait() -> None:
    document = documents.counted()
    document["parts"][0]["alone"] = False
    found = digest("a", document)
    assert found.parts[0] == Part("all parts", 4020, None, None, None, None, 4020)
    assert [part.maximum for part in found.parts[1:]] == [1010, 2010, 2010]
    assert not found.met
    assert found.not_met.startswith("instructions were counted")


def emulate(document: dict[str, Any]) -> None:
    document["board"]["kind"] = "emulated"


def stand_in(document: dict[str, Any]) -> None:
    document["plan"]["items"][0]["ran_on"] = "host-simulation of CUDA"


def miss(document: dict[str, Any]) -> None:
    document["outputs"]["differing"] = 3
    document["verdict"] = "differs"


@pytest.mark.parametrize(
    ("change", "why"), [(emulate, "no times"), (stand_in, "no times"), (miss, "3 outputs are not")]
)
def test_what_is_no_met_is_never_called_so_whatever_the_document_says(change: Any, why: str) -> None:
    document = timed()
    assert digest("a", document).met
    change(document)
    found = digest("a", document)
    assert not found.met
    assert found.not_met.startswith(why)


def differ_behind(document: dict[str, Any]) -> None:
    document["layers"][3]["differing"] = 7


def leave_out(document: dict[str, Any]) -> None:
    document["layers"][3]["compared"] = 0


def exceed(document: dict[str, Any]) -> None:
    document["verdict"] = "within bound"
    document["layers"][3]["bounded"] = {"ratio": "Infinity", "unequal": 1}


CONTRADICTIONS = {
    "a layer": (differ_behind, "layer dense_3 differs"),
    "nothing compared": (leave_out, "layer dense_3 was not compared"),
    "no layers": (lambda run: run.update(layers=[]), "nothing was compared"),
    "a bound": (lambda run: run["layers"][3].update(bounded={"ratio": 0.5, "unequal": 1}), "it has 1 bounded layer"),
    "no bound": (lambda run: run.update(verdict="within bound"), "it has 0 bounded layers"),
    "beyond its bound": (exceed, "layer dense_3 is beyond its bound"),
    "a proof": (lambda run: run.update(proof={"holds": False}), "its proof fails"),
    "traces": (lambda run: run.update(conformance={"conforms": False}), "its traces are out of order"),
    "no measurement": (lambda run: run.update(verdict="measured"), "nothing was compared"),
    "outputs": (lambda run: run.update(outputs={"differing": 2}), "2 outputs differ"),
    "slower": (lambda run: run.update(against={"regressed": True}), "slower than before"),
}


@pytest.mark.parametrize("how", CONTRADICTIONS)
def test_a_good_verdict_that_its_own_document_contradicts_is_not_believed(tmp_path: Path, how: str) -> None:
    document, (change, why) = run_document("xavier", "m"), CONTRADICTIONS[how]
    change(document)
    found = read(write(tmp_path / "run", json.dumps(document)))
    assert (found.verdict, why in found.reason) == ("unreadable", True), found.reason


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    text = json.dumps(run_document("xavier", "m"))
    found = read(write(tmp_path / "run", text.replace("{", '{"verdict": "differs", ', 1)))
    assert (found.verdict, "'verdict' is repeated" in found.reason) == ("unreadable", True)


def test_the_document_of_another_run_behind_a_link_is_none(tmp_path: Path) -> None:
    real = write(tmp_path / "real", json.dumps(run_document("xavier", "m")))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").symlink_to(real / "run.json")
    assert read(tmp_path / "run").verdict == "unreadable"
    (real / "run.json").unlink()
    assert read(tmp_path / "run").verdict == "unreadable"


HOSTILE = {
    "half": json.dumps(run_document("x", "m"))[:2000],
    "empty": "",
    "a list": "[1]",
    "a number": "7",
    "nothing in it": "{}",
    "deep": "[" * 100_000,
    "binary": "\0\1\2",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_read_is_listed_as_such(tmp_path: Path, name: str) -> None:
    found = read(write(tmp_path / "run", HOSTILE[name]))
    assert (found.name, found.state, found.verdict) == ("run", State.UNREADABLE, "unreadable")
    assert found.reason


def replaced(*path: str, by: Any) -> str:
    document = timed()
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = by
    return json.dumps(document)


@pytest.mark.parametrize(
    "text",
    [
        replaced("verdict", by="fine"),
        replaced("board", by="xavier"),
        replaced("board", "name", by={"a": 1}),
        replaced("stimuli", "count", by=1 << 70),
        replaced("stimuli", "count", by=-1),
        replaced("wall_s", by=float("nan")),
        replaced("wall_s", by="1e999"),
        replaced("measured", "samples", by=[]),
        replaced("parts", by=[{"name": "x"}]),
        replaced("plan", "items", by=7),
        replaced("harness", by=None),
    ],
)
def test_a_document_of_wrong_types_is_listed_as_unreadable(tmp_path: Path, text: str) -> None:
    assert read(write(tmp_path / "run", text)).state is State.UNREADABLE


def test_texts_become_such_as_a_database_holds(tmp_path: Path) -> None:
    document = run_document("x", "m")
    found = read(write(tmp_path / "run", json.dumps(document | {"reason": "y" * 10_000})))
    assert found.reason == "y" * runs.LONGEST
    half = read(write(tmp_path / "half", json.dumps(document | {"reason": "\ud800"})))
    assert half.state is State.UNREADABLE


def test_a_pipe_and_a_huge_file_stop_nobody(tmp_path: Path) -> None:
    for name in ("pipe", "huge"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "run.json")
    with (tmp_path / "huge" / "run.json").open("wb") as file:
        file.truncate(LARGEST_DOCUMENT + 1)
    for name in ("pipe", "huge"):
        assert read(tmp_path / name).reason.startswith("ValueError: run.json is not a file of at most 64 MiB")


def unfinished(folder: Path) -> RunFolder:
    folder.mkdir()
    (folder / "chunks").mkdir()
    request = {"board": "xavier", "model": "acas_coc", "floats": None}
    write_json(folder / "request.json", {"request": request, "name": "acas_coc", "bundle": "cd", "kind": "run"})
    found = RunFolder(folder)
    found.start_attempt()
    return found


def test_an_unfinished_run_says_what_stopped_it(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "run")
    assert (read(folder.path).verdict, read(folder.path).part) == ("unfinished", "")
    folder.stop_attempt("network", "the connection was cut")
    found = read(folder.path)
    assert (found.state, found.verdict, found.part) == (State.UNFINISHED, "inconclusive", "network")
    assert (found.reason, found.board, found.model) == ("the connection was cut", "xavier", "acas_coc")
    assert (found.ending, found.action, found.bundle_sha256) == ("inconclusive (network)", "run", "cd")
    folder.start_attempt()
    folder.stop_attempt("user", "interrupted")
    assert (read(folder.path).ending, read(folder.path).attempts) == ("unfinished (user)", 2)


def test_a_run_whose_own_files_speak_against_it_is_not_shown_as_identical(tmp_path: Path) -> None:
    document = run_document("xavier", "acas_coc")
    folder = RunFolder.create_at(tmp_path / "run")
    document["content_sha256"] = content_sha256(document["files"])
    write_json(folder.path / "run.json", document)
    assert read(folder.path).verdict == "identical"
    folder.write_chunk(chunk(3), HOST)
    assert (read(folder.path).state, "a chunk" in read(folder.path).reason) == (State.UNREADABLE, True)
    (folder.path / "chunks" / "00000.json").unlink()
    write_json(folder.path / "run.json", document | {"content_sha256": "0" * 64})
    assert read(folder.path).reason == "ValueError: its content_sha256 is not that of its files"


def chunk(differing: int) -> ChunkRecord:
    first = Difference(1, 2, 3, 4) if differing else None
    return ChunkRecord(0, 0, 10, (Comparison(50, differing, first, differing),), ("a",), ("b",), (), ())


def test_an_unfinished_run_that_was_wrong_already_says_so(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "run")
    before = stamp(folder.path)
    folder.write_chunk(chunk(3), HOST)
    assert stamp(folder.path) != before
    folder.stop_attempt("board", "no answer")
    assert read(folder.path).ending == "inconclusive (board), differs so far"


@pytest.mark.parametrize("text", ["[]\n[]", '"began"\n7\n', '{"began": 1}\n', "{", '{"began": {}}\n{"stopped": 1}\n'])
def test_hostile_attempts_are_no_traceback(tmp_path: Path, text: str) -> None:
    folder = unfinished(tmp_path / "run")
    (folder.path / "attempts.jsonl").write_text(text)
    assert read(folder.path).state in {State.UNFINISHED, State.UNREADABLE}


def test_what_is_no_run_folder_has_no_stamp(tmp_path: Path) -> None:
    assert stamp(tmp_path) == ""
    assert stamp(tmp_path / "nowhere") == ""


def test_hardware_is_what_targets_call_it() -> None:
    assert run_document("x", "m")["plan"]["items"][0]["ran_on"] == HARDWARE
