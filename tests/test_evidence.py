from __future__ import annotations

import hashlib
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.compare import Comparison, Difference
from harness.diagnosis import Diagnosis, Hypothesis, Observation, Portrait
from harness.errors import RequestError
from harness.evidence import ChunkRecord, RunFolder, content_sha256, differs_so_far, file_sha256, write_json

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
    portraits=(Portrait(1, {7: (0, 2), 11: (1, 0)}, (0, 0, 0, 0, 0, 3, 0, 0, 0), (1, 0, 0, 0, 0, 0, 0, 1)),),
)


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
    folder.write_chunk(RECORD)
    assert list(folder.chunks()) == [RECORD]


def test_a_chunk_that_another_version_wrote_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_chunk(RECORD)
    path = folder.path / "chunks" / "00003.json"
    document = json.loads(path.read_text())
    del document["diagnoses"]
    path.write_text(json.dumps(document | {"diagnosis": None}))
    with pytest.raises(RequestError, match="written by another version of harness"):
        list(folder.chunks())


def test_a_finished_run_lists_every_file_with_its_hash(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "host", "m", TIME)
    folder.write_request({"request": {}}, b"onnx")
    folder.write_chunk(RECORD)
    (folder.dumps("target", 3) / "01_dense_1.npy").write_bytes(b"dump")
    folder.finish({"verdict": "differs"})
    run = json.loads((folder.path / "run.json").read_text())
    assert run["verdict"] == "differs"
    assert set(run["files"]) == {"request.json", "model.onnx", "chunks/00003.json", "target/00003/01_dense_1.npy"}
    assert run["files"]["target/00003/01_dense_1.npy"] == "c", "the hash that was taken when it was compared"
    assert run["files"]["model.onnx"].startswith("87e93f89"), "SHA-256 of the four bytes"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_what_is_no_unfinished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="this is no run folder"):
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


def test_a_run_folder_of_ones_own_choice_is_new(tmp_path: Path) -> None:
    assert RunFolder.create_at(tmp_path / "night" / "3").path == tmp_path / "night" / "3"
    with pytest.raises(RequestError, match=r"cannot make the run folder .*: File exists"):
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
    folder.begin_attempt()
    folder.stop_attempt("network", "lost the board")
    folder.begin_attempt()
    with (folder.path / "attempts.jsonl").open("a") as file:
        file.write('{"beg')  # a machine that died while it wrote
        file.write("\n")
    folder.begin_attempt()
    assert [(attempt["part"], attempt["reason"]) for attempt in folder.attempts()] == [
        ("network", "lost the board"),
        ("host", "the process was killed, or its machine went down"),
        ("", ""),
    ]


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
        folder.write_chunk(record)
    if proof is not None:
        folder.write_proof({"holds": proof})
    assert differs_so_far(folder.path) is differs
