from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from harness.core.installation import ROOT
from harness.runs.history import index
from harness.runs.history import run as runs
from harness.runs.history.index import FILE, Refreshed, RunFilter, opened
from harness.runs.history.run_record import Run
from tests.support.history import laboratory
from tests.support.history.laboratory import Board, run_document
from tests.support.measurement import documents


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("laboratory") / "runs"
    lab = (Board("xavier", wrong=1), Board("kv260", "emulated"))
    laboratory.make(folder, lab, 2, models=("acas_wl", "acas_sl"))
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "runs")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders that are read."""
    names: list[str] = []
    real = runs.read

    def note(path: Path) -> Run:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(runs, "read", note)
    return names


def test_all_runs_come_back_as_they_were_read(folder: Path) -> None:
    every = {path.parent.name: runs.read(path.parent) for path in folder.glob("*/run.json")}
    assert len(every) == 8
    with opened(folder) as found:
        assert {run.name: run for run in found.find(RunFilter())} == every
        assert found.count() == 8


def test_only_what_is_new_or_changed_is_read_again(folder: Path, read: list[str]) -> None:
    with opened(folder) as found:
        assert len(read) == 8
        read.clear()
        assert found.refresh() == Refreshed(0, 0)
    names = sorted(path.parent.name for path in folder.glob("*/run.json"))
    shutil.rmtree(folder / names[0])
    changed = json.loads((folder / names[1] / "run.json").read_text()) | {"verdict": "inconclusive"}
    (folder / names[1] / "run.json").write_text(json.dumps(changed))
    shutil.copytree(folder / names[2], folder / "new")
    with opened(folder) as found:
        assert sorted(read) == sorted([names[1], "new"])
        records = {run.name: run for run in found.find(RunFilter())}
    assert names[0] not in records
    assert records[names[1]].verdict == "inconclusive"
    assert records["new"].verdict == records[names[2]].verdict


def test_an_edit_that_sets_the_time_back_is_seen(folder: Path) -> None:
    path = next(path for path in folder.glob("*_kv260_acas_wl/run.json"))
    with opened(folder):
        before, text = path.stat(), path.read_text()
    path.write_text(text.replace('"differing": 0', '"differing": 9', 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with opened(folder) as found:
        [run] = [run for run in found.find(RunFilter()) if run.name == path.parent.name]
    assert run.verdict == "unreadable"


def test_an_unfinished_run_is_known_and_then_finished(folder: Path) -> None:
    unfinished = folder / "20261201_xavier_x"
    unfinished.mkdir()
    (unfinished / "request.json").write_text(json.dumps({"request": {"board": "xavier", "model": "x"}}))
    with opened(folder) as found:
        assert [run.name for run in found.find(RunFilter(verdict="unfinished"))] == [unfinished.name]
    (unfinished / "run.json").write_text(json.dumps(run_document("xavier", "x")))
    with opened(folder) as found:
        assert found.find(RunFilter(model="x"))[0].verdict == "identical"


def test_what_is_wanted_is_found_the_latest_first(folder: Path) -> None:
    with opened(folder) as found:
        assert [run.board for run in found.find(RunFilter(board="kv260"))] == ["kv260"] * 4
        [wrong] = found.find(RunFilter(verdict="differs"))
        assert (wrong.board, wrong.model, wrong.started[:10]) == ("xavier", "acas_wl", "2026-10-25")
        assert found.find(RunFilter(board="xavier", model="acas_wl"), 1) == [wrong]
        assert {run.started[:10] for run in found.find(RunFilter(since="2026-10-25"))} == {"2026-10-25"}
        assert found.find(RunFilter(model="' OR 1=1 --")) == []
        starts = [run.started for run in found.find(RunFilter())]
        assert starts == sorted(starts, reverse=True)
        assert [len(run.parts) for run in found.find(RunFilter(model="acas_sl"))] == [4, 1, 4, 1]


def test_a_run_that_differs_so_far_is_found_among_those_that_differ(folder: Path) -> None:
    one = folder / "one"
    shutil.copytree(next(path.parent for path in folder.glob("*_kv260_*/run.json")), one)
    (one / "run.json").unlink()
    (one / "request.json").write_text(json.dumps({"request": {"board": "kv260", "model": "x"}}))
    (one / "proof.json").write_text(json.dumps({"holds": False}))
    with opened(folder) as found:
        assert "one" in [run.name for run in found.find(RunFilter(verdict="differs"))]


@pytest.mark.parametrize("damage", ["text", "head", "other version", "other tables", "a folder", "truncated"])
def test_whatever_stands_in_its_place_the_answer_is_the_same(folder: Path, damage: str) -> None:
    path = folder / FILE
    with opened(folder) as found:
        right = found.find(RunFilter())
    content = path.read_bytes()
    if damage == "text":
        path.write_text("no database at all, but long enough to be taken for one " * 9)
    elif damage == "head":
        path.write_bytes(b"x" * 200 + content[200:])
    elif damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "a folder":
        path.unlink()
        path.mkdir()
    else:
        with sqlite3.connect(path) as database:
            if damage == "other tables":
                database.execute("DROP TABLE parts")
            else:
                database.execute("PRAGMA user_version = 5")
                database.execute("UPDATE runs SET verdict = 'identical'")
        database.close()
    with opened(folder) as found:
        assert found.find(RunFilter()) == right
    with opened(folder) as found:
        assert found.find(RunFilter()) == right


def test_damage_that_shows_only_when_it_is_asked_is_mended(folder: Path) -> None:
    with opened(folder) as found:
        right = found.find(RunFilter())
    content = bytearray((folder / FILE).read_bytes())
    size = int.from_bytes(content[16:18], "big")
    with sqlite3.connect(folder / FILE) as database:
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'parts'").fetchone()[0]
    database.close()
    content[(root - 1) * size : root * size] = b"\xff" * size
    (folder / FILE).write_bytes(content)
    with opened(folder) as found:
        assert found.find(RunFilter()) == right


def test_a_rebuild_reads_everything_again(folder: Path, read: list[str]) -> None:
    for _ in range(2):
        with opened(folder, rebuild=True) as found:
            assert found.count() == 8
    assert len(read) == 16


def test_where_nothing_may_be_written_nothing_is(
    folder: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(folder):
        before = (folder / FILE).read_bytes()
    read.clear()
    shutil.copytree(next(path.parent for path in folder.glob("*_kv260_*/run.json")), folder / "new")
    connect = sqlite3.connect

    def forbid(path: str | Path, **options: object) -> sqlite3.Connection:  # root may write anywhere
        if path == folder / FILE:
            return connect(f"file:{path}?mode=ro", uri=True)
        return connect(path, **options)  # type: ignore[call-overload,no-any-return] # as they were given

    monkeypatch.setattr(index.sqlite3, "connect", forbid)
    with opened(folder) as found:
        assert found.count() == 9
    assert read == ["new"]  # the file's own records are used, and it stays as it is
    assert (folder / FILE).read_bytes() == before


def test_of_no_folder_there_is_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "nowhere") as found:
        assert found.find(RunFilter()) == []
    assert not (tmp_path / "nowhere").exists()


def test_names_that_are_no_text_stop_nobody(folder: Path) -> None:
    strange = folder / os.fsdecode(b"\xff\xfe")
    strange.mkdir()
    (strange / "run.json").write_text(json.dumps(run_document("x", "m")))
    (folder / "a\nb'\"<>").mkdir()
    (folder / "a\nb'\"<>" / "run.json").write_text(json.dumps(documents.counted()))
    with opened(folder) as found:
        assert found.count() == 9
        assert found.find(RunFilter(model="acas_coc"))[0].name == "a\nb'\"<>"


USE = """
import sys
from contextlib import closing
from pathlib import Path
from harness.runs.history.index import RunFilter, opened
for _ in range(3):
    with opened(Path(sys.argv[1]), rebuild=len(sys.argv) > 2) as found:
        print(found.count(), len(found.find(RunFilter())))
"""


def test_several_processes_use_it_at_once(folder: Path) -> None:
    commands = [[sys.executable, "-c", USE, str(folder), *extra] for extra in ([], ["rebuild"], [])]
    started = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True, cwd=ROOT) for one in commands]
    told = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert told == ["8 8\n" * 3] * 3


def test_a_link_that_leads_nowhere_hides_no_run(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    (folder / "gone").symlink_to("nowhere")
    with opened(folder) as found:
        assert found.count() == 8


def test_an_index_that_another_process_keeps_busy_is_let_be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "WAIT_S", 0.1)
    with opened(folder) as found, closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other:
        right, before = found.find(RunFilter()), (folder / FILE).stat().st_ino
        other.execute("BEGIN EXCLUSIVE")
        assert found.find(RunFilter()) == right
        with opened(folder) as beside:
            assert beside.find(RunFilter()) == right
        assert (folder / FILE).stat().st_ino == before


def test_a_change_that_is_not_completed_is_not_believed(folder: Path) -> None:
    """Of a process that was killed, or still works on it, where this one cannot wait for it or may not write."""
    with opened(folder) as found:
        right = found.find(RunFilter())
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other:
        other.execute("PRAGMA cache_size = 1")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("UPDATE runs SET verdict = 'identical', reason = 'not yet'")
        for number in range(200):  # so much that it goes to the file before its time
            other.execute("INSERT INTO parts (run, position, name) VALUES ('x', ?, ?)", (number, "x" * 2000))
        assert b"not yet" in (folder / FILE).read_bytes()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index, "WAIT_S", 0.1)
            with opened(folder) as found:
                assert found.find(RunFilter()) == right
