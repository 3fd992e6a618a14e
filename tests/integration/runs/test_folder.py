from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.compare import Comparison, Difference
from harness.analysis.diagnosis import Diagnosis, DifferenceSummary, Hypothesis, Observation
from harness.core.document import durable, write_json
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.core.safe_io import parse_json
from harness.reference import Whole, WholeOutput
from harness.runs import folder as run_folder
from harness.runs.folder import ChunkRecord, RunFolder, content_sha256, differs_so_far, now
from tests.support.identities import HOST, XAVIER

TIME = datetime(2026, 11, 21, 5, 17, 5, tzinfo=UTC)
RECORD = ChunkRecord(
    index=3,
    start=300,
    stop=400,
    layers=(Comparison(100, 0, None), Comparison(200, 2, Difference(317, 1, 4, 5), own=1)),
    reference_sha256=("a", "b"),
    target_sha256=("a", "c"),
    diagnoses=(
        Diagnosis(
            1,
            "accumulators",
            2,
            Observation(200, 2, 7, 2, 1, 1, 2, 0, 3),
            (Hypothesis("half up", "half to even", 2, 0, 16, Difference(317, 1, 4, 5)), Hypothesis("x", "y", 0, 2)),
        ),
    ),
    portraits=(DifferenceSummary(1, {7: (0, 2), 11: (1, 0)}, (0, 0, 0, 0, 0, 3, 0, 0, 0), (1, 0, 0, 0, 0, 0, 0, 1)),),
)

RIGHT = (Comparison(100, 0, None), Comparison(200, 0, None))


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    names = [RunFolder.create(tmp_path, "xavier", "acas_coc", TIME).name for _ in range(3)]
    stem = "20261121-051705_xavier_acas_coc"
    assert names == [stem, f"{stem}_2", f"{stem}_3"]


def test_a_models_name_cannot_leave_the_runs_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", "host", "../../x; rm -rf $HOME\n", TIME)
    assert folder.path.parent == tmp_path / "runs"
    assert folder.name == "20261121-051705_host_.._.._x__rm_-rf__HOME_"


def test_a_chunk_comes_back_as_it_was_written(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_chunk(RECORD, HOST)
    assert list(folder.chunks()) == [RECORD]
    whole = Whole((WholeOutput("y", 100, 200, 150, 0.5, 0.25),), (None, 0.75))
    folder.write_chunk(replace(RECORD, ratios=(None, 0.5), whole=whole), HOST)
    assert list(folder.chunks()) == [replace(RECORD, ratios=(None, 0.5), whole=whole)]


def test_what_is_kept_of_nan_and_infinity_is_json_and_comes_back(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    differing = Comparison(200, 2, Difference(317, 1, float("-inf"), float("nan")))
    folder.write_chunk(replace(RECORD, layers=(differing,)), HOST)
    document = parse_json((folder.path / "chunks" / "00003.json").read_text())
    assert document["layers"][0]["first"] == {"vector": 317, "unit": 1, "expected": "-Infinity", "actual": "NaN"}
    [record] = folder.chunks()
    assert repr(record.layers) == repr((differing,))


def test_a_chunk_that_another_version_wrote_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_chunk(RECORD, HOST)
    path = folder.path / "chunks" / "00003.json"
    document = json.loads(path.read_text())
    del document["diagnoses"]
    path.write_text(json.dumps(document | {"diagnosis": None}))
    with pytest.raises(RequestError, match="written by another version of harness"):
        list(folder.chunks())


def test_a_chunk_of_another_form_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_chunk(RECORD, HOST)
    path = folder.path / "chunks" / "00003.json"
    odd = [{"layer": 0, "cells": [], "steps": [], "tie_distances": []}]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"portraits": odd}))
    with pytest.raises(RequestError, match="written by another version of harness"):
        list(folder.chunks())


def test_a_finished_run_lists_every_file_with_its_hash(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_request({"request": {}}, b"onnx")
    folder.write_chunk(RECORD, HOST)
    (folder.dumps("target", 3) / "01_dense_1.npy").write_bytes(b"dump")
    folder.finish({"verdict": "differs"})
    run = json.loads((folder.path / "run.json").read_text())
    assert run["verdict"] == "differs"
    assert set(run["files"]) == {"request.json", "model.onnx", "boards/00003.json", "chunks/00003.json"} | {
        "target/00003/01_dense_1.npy"
    }
    assert run["files"]["target/00003/01_dense_1.npy"] == "c", "the hash that was taken when it was compared"
    assert run["files"]["model.onnx"].startswith("87e93f89"), "SHA-256 of the four bytes"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_what_is_no_unfinished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="not a run folder"):
        RunFolder.open_unfinished(tmp_path)
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_request({}, b"")
    assert RunFolder.open_unfinished(folder.path) == folder
    folder.finish({})
    with pytest.raises(RequestError, match="this run is finished"):
        RunFolder.open_unfinished(folder.path)


def test_a_damaged_request_is_named(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    (folder.path / "request.json").write_text("{")
    with pytest.raises(RequestError, match=r"request\.json"):
        folder.read_request()
    (folder.path / "request.json").write_text("3")
    with pytest.raises(RequestError, match=r"request\.json"):
        folder.read_request()


def test_a_document_that_says_a_thing_twice_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_chunk(RECORD, HOST)
    (folder.path / "request.json").write_text('{"request": {}, "request": {"board": "other"}}')
    (folder.path / "proof.json").write_text('{"holds": false, "holds": true}')
    chunk = folder.path / "chunks" / "00003.json"
    chunk.write_text(chunk.read_text().replace("{", '{"index": 1,', 1))
    for read in (folder.read_request, lambda: list(folder.chunks())):
        with pytest.raises(RequestError):
            read()
    with pytest.raises(ValueError, match="'holds' is repeated"):
        folder.read_proof()


def test_a_run_folder_of_ones_own_choice_is_new(tmp_path: Path) -> None:
    assert RunFolder.create_at(tmp_path / "night" / "3").path == tmp_path / "night" / "3"
    with pytest.raises(RequestError, match=r"cannot create the run folder .*: File exists"):
        RunFolder.create_at(tmp_path / "night" / "3")


def test_two_runs_of_the_same_name_have_folders_of_their_own_on_the_board(tmp_path: Path) -> None:
    runs = [RunFolder.create_at(tmp_path / machine / "run") for machine in ("a", "b")]
    for run in runs:
        run.write_request({}, b"")
    assert runs[0].name == runs[1].name
    assert runs[0].on_board != runs[1].on_board
    assert runs[0].on_board == RunFolder(runs[0].path).on_board


def test_attempts_are_told_with_what_stopped_them(tmp_path: Path) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    assert folder.attempts() == []
    folder.start_attempt()
    folder.stop_attempt("network", "lost the board")
    folder.start_attempt()
    with (folder.path / "attempts.jsonl").open("a") as file:
        file.write('{"beg')  # a machine that died while it wrote
    folder.start_attempt()
    assert [(attempt["part"], attempt["reason"]) for attempt in folder.attempts()] == [
        ("network", "lost the board"),
        ("host", "the process ended without a word: it was killed, its machine went down, or its disk was full"),
        ("", ""),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[1]", "is not an event of a run"),
        ("7", "is not an event of a run"),
        ('{"stopped": "now"}', "is not an event of a run"),
        ('{"began": "now", "approved": true}', "is not an event of a run"),
        ('{"began": "now", "began": "then"}', "'began' is repeated"),
        ("", "is no part of an event"),
        ("approved", "is no part of an event"),
        ('{"began":  "now"}', "is not an event of a run"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_a_line_of_the_attempts_that_is_no_event_is_refused(tmp_path: Path, line: str, why: str) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    folder.start_attempt()
    with (folder.path / "attempts.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(RequestError, match=rf"attempts\.jsonl, line 2: .*{why}"):
        folder.attempts()


@pytest.mark.parametrize("inner", [False, True])
def test_an_unknown_key_of_a_chunk_is_refused(tmp_path: Path, *, inner: bool) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_chunk(RECORD, HOST)
    path = folder.path / "chunks" / "00003.json"
    document = json.loads(path.read_text())
    (document["portraits"][0] if inner else document)["approved"] = True
    path.write_text(json.dumps(document))
    with pytest.raises(RequestError, match=r"chunk\.(portraits\.0\.)?approved: Unexpected"):
        list(folder.chunks())


def test_an_unknown_key_of_a_request_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_request({"request": {}}, b"onnx")
    write_json(folder.path / "request.json", folder.read_request() | {"approved": True})
    with pytest.raises(RequestError, match=r"request\.json has unknown keys: 'approved'; valid keys: schema, "):
        folder.read_request()


def test_the_board_is_noted_once_and_in_each_attempt(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_request({"request": {}}, b"onnx")
    assert folder.board is None
    restarted = replace(XAVIER, boot_id="99999999-2222-3333-4444-555555555555", address="nvidia@10.0.0.7:22")
    for reached in (XAVIER, restarted):
        folder.start_attempt()
        folder.note_board(reached)
    assert folder.board == XAVIER
    assert [attempt["board"] for attempt in folder.attempts()] == [XAVIER.document(), restarted.document()]
    folder.write_board("traces", restarted)
    found = [("request.json", XAVIER), ("attempt 1", XAVIER), ("attempt 2", restarted)]
    assert list(folder.observations()) == [*found, ("boards/traces.json", restarted)]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "kv260"}, "name: xavier -> kv260"),
        ({"host_key": f"SHA256:{'x' * 43}"}, f"host_key: {XAVIER.host_key} -> SHA256:xxxx"),
        ({"machine_id": "f" * 32}, f"machine_id: {XAVIER.machine_id} -> ffff"),
        ({"kind": "this machine", "address": None, "host_key": None}, "kind: hardware -> this machine"),
        ({"kind": "emulated", "machine_id": "harness.name=xavier"}, "kind: hardware -> emulated"),
    ],
)
def test_another_board_is_refused_and_not_noted(tmp_path: Path, changes: dict[str, str | None], told: str) -> None:
    folder = RunFolder.create(tmp_path, "xavier", "m", TIME)
    folder.write_request({"request": {}}, b"onnx")
    folder.start_attempt()
    folder.note_board(XAVIER)
    folder.start_attempt()
    with pytest.raises(RequestError, match=f"started on another board: .*{told}"):
        folder.note_board(replace(XAVIER, **changes))
    assert (folder.board, folder.attempts()[1]["board"]) == (XAVIER, None)


def test_a_chunk_or_proof_of_another_board_is_not_gone_on_with(tmp_path: Path) -> None:
    folder = _interrupted(tmp_path / "run")
    folder.note_board(HOST)
    assert folder.recover(lambda _: None) == []
    folder.write_board("00003", XAVIER)
    with pytest.raises(
        RequestError, match=r"boards/00003\.json names another board than request\.json: name: host -> x"
    ):
        folder.recover(lambda _: None)
    folder.write_board("00003", HOST)
    folder.write_proof({"holds": True, "board": XAVIER.document()})
    with pytest.raises(RequestError, match=r"proof\.json names another board than request\.json"):
        folder.recover(lambda _: None)


def test_a_chunk_whose_board_is_not_known_is_done_again(tmp_path: Path) -> None:
    folder = _interrupted(tmp_path / "run")
    (folder.path / "boards" / "00003.json").unlink()
    assert folder.recover(lambda _: None) == [3]
    assert _files(folder) == {"model.onnx", "request.json"}


def test_the_content_hash_is_that_of_what_sha256sum_prints_and_leaves_times_out(tmp_path: Path) -> None:
    names = ("stimuli.npy", "target/00000/00_a.npy")
    (tmp_path / "target" / "00000").mkdir(parents=True)
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    printed = subprocess.run(["sha256sum", *names], cwd=tmp_path, capture_output=True, check=True).stdout
    files = {name: file_sha256(tmp_path / name) for name in reversed(names)}
    assert content_sha256(files | {"log.txt": "1", "attempts.jsonl": "2"}) == hashlib.sha256(printed).hexdigest()
    assert content_sha256(files | {"target/00000/01_b.npy": "3"}) != content_sha256(files)


@pytest.mark.parametrize(
    ("record", "proof", "differs"), [(None, None, False), (RECORD, None, True), (None, False, True)]
)
def test_what_an_unfinished_run_has_found_is_found(
    tmp_path: Path, record: ChunkRecord | None, proof: bool | None, differs: bool
) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    if record:
        folder.write_chunk(record, HOST)
    if proof is not None:
        folder.write_proof({"holds": proof})
    assert differs_so_far(folder.path) is differs
    for damaged in ("torn", "[" * 100_000):
        (folder.path / "chunks" / "00000.json").write_text(damaged)
        assert differs_so_far(folder.path) is (differs or None), "nobody knows what it told"


def test_wrong_outputs_of_a_measurement_are_not_forgotten(tmp_path: Path) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    first, later = np.array([[1, 2]], np.int8), np.array([[3, 4]], np.int8)
    folder.note_wrong_outputs(RECORD.layers[1], first, HOST)
    folder.note_wrong_outputs(RECORD.layers[0], later, HOST)
    assert differs_so_far(folder.path) is True
    assert json.loads((folder.path / "wrong-outputs.json").read_text())["differing"] == 2
    assert np.load(folder.path / "wrong-outputs.npy").tolist() == [[1, 2]], "the first ones"


def _interrupted(path: Path, fetch: str = "all", layers: tuple[Comparison, ...] = RIGHT) -> RunFolder:
    """A run with one finished chunk, of which the second layer's dumps are kept, or all."""
    folder = RunFolder.create_at(path)
    folder.write_request({"request": {"fetch": fetch}}, b"model")
    kept = ("00_a.npy", "01_b.npy") if fetch == "all" else ("01_b.npy",)
    for kind in ("reference", "target"):
        for name in kept:
            (folder.dumps(kind, 3) / name).write_text(kind if name == "01_b.npy" else "the same")
    same, *different = (hashlib.sha256(text.encode()).hexdigest() for text in ("the same", "reference", "target"))
    hashes = {"reference_sha256": (same, different[0]), "target_sha256": (same, different[1])}
    folder.write_chunk(replace(RECORD, layers=layers, **hashes), HOST)
    return folder


def _files(folder: RunFolder) -> set[str]:
    return {path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("fetch", ["all", "mismatch"])
def test_what_is_whole_is_kept_and_nothing_else(tmp_path: Path, fetch: str) -> None:
    folder = _interrupted(tmp_path / "run", fetch)
    whole = _files(folder)
    (folder.dumps("target", 4) / "00_a.npy").write_text("of a chunk that was not finished")
    for name in ("run.json.part", "chunks/00004.json.part", "target/00003/01_b.npy.part", "failing.npy"):
        (folder.path / name).write_text("")
    looked_at: list[int] = []
    assert folder.recover(looked_at.append) == []
    assert looked_at == [1]
    assert _files(folder) == whole
    assert not (folder.path / "target" / "00004").exists()


@pytest.mark.parametrize("fetch", ["all", "mismatch"])
@pytest.mark.parametrize("torn", ["chunks/00003.json", "reference/00003/01_b.npy", "target/00003/01_b.npy"])
@pytest.mark.parametrize("gone", [True, False])
def test_a_chunk_of_which_something_is_damaged_is_done_again(
    tmp_path: Path, fetch: str, torn: str, *, gone: bool
) -> None:
    folder = _interrupted(tmp_path / "run", fetch)
    path = folder.path / torn
    if not gone:
        path.write_bytes(path.read_bytes()[:-3])
    elif path.suffix == ".npy":
        path.unlink()
    else:
        path.write_text("{}")
    assert folder.recover(lambda _: None) == [3]
    assert list(folder.chunks()) == []
    assert _files(folder) == {"model.onnx", "request.json"}


def test_a_difference_that_was_found_is_not_tried_again(tmp_path: Path) -> None:
    folder = _interrupted(tmp_path / "run", layers=RECORD.layers)
    assert folder.recover(lambda _: None) == []
    (folder.path / "target/00003/01_b.npy").write_text("torn")
    with pytest.raises(RequestError, match="it has shown wrong activations, and their files are damaged"):
        folder.recover(lambda _: None)
    assert differs_so_far(folder.path)


def test_a_word_after_a_torn_one_is_not_lost(tmp_path: Path) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    folder.start_attempt()
    with (folder.path / "attempts.jsonl").open("a") as file:
        file.write('{"stopped": "2026')  # the disk was full
    folder.start_attempt()
    folder.stop_attempt("board", "it was off")
    assert [attempt["part"] for attempt in folder.attempts()] == ["host", "board"]


def test_answers_of_several_threads_are_whole_lines(tmp_path: Path) -> None:
    """Without a lock, about 10 of these 200 answers follow an empty line, which a resumed proof refuses."""
    folder = RunFolder.create_at(tmp_path / "run")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: folder.note_answer({"number": number, "text": "x" * 5000}), range(200)))
    assert sorted(answer["number"] for answer in folder.answers()) == list(range(200))


def test_an_attempt_is_recorded_while_the_run_is_locked(tmp_path: Path) -> None:
    """The lock of the run and the recorded attempt are in one file."""
    folder = RunFolder.create_at(tmp_path / "run")
    with folder.held():
        folder.start_attempt()
    assert len(folder.attempts()) == 1


def test_two_processes_do_not_work_on_one_run(tmp_path: Path) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    with folder.held(), pytest.raises(RequestError, match="another process works on this run"), folder.held():
        pass
    with folder.held():
        pass


def test_a_file_that_could_not_be_written_is_as_before(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"verdict": "identical"})
    with pytest.raises(TypeError):
        write_json(path, {"verdict": object()})
    with pytest.raises(TypeError), durable(path) as file:
        print(b"half", file=file)
    assert json.loads(path.read_text()) == {"verdict": "identical"}
    assert list(tmp_path.iterdir()) == [path]


def test_the_first_error_is_told_also_where_the_rest_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: bool) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OSError, match="No space left"), durable(tmp_path / "run.json"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_belongs_to_it_is_on_the_disk_before_a_document_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    there: list[set[str]] = []
    monkeypatch.setattr(run_folder, "synchronise", lambda path: there.append(_files(RunFolder(path))))
    folder.write_request({}, b"model")
    folder.finish({})
    assert there == [{"model.onnx"}, {"model.onnx", "request.json"}, {"model.onnx", "request.json", "run.json"}]


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder.synchronise(tmp_path)
    monkeypatch.setattr(os, "open", lambda *_: -1)
    monkeypatch.setattr(os, "close", lambda _: None)
    with pytest.raises(OSError, match="Bad file descriptor"):
        run_folder.synchronise(tmp_path)


def test_nobody_sets_the_clock_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = now()
    assert abs(before.timestamp() - time.time()) < 60
    monkeypatch.setattr(run_folder, "datetime", None)  # the time of day is asked for no more
    assert 0 <= (now() - before).total_seconds() < 60
