from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest
from rich.console import Console

from harness.core import console
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from tests.support.cli.command import User
from tests.support.history import laboratory
from tests.support.history.laboratory import Board, make_wrong, run_document
from tests.support.measurement import documents


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("laboratory") / "runs"
    laboratory.make(folder, (Board("xavier", wrong=1), Board("kv260", "emulated")), 2, models=("acas_wl", "acas_sl"))
    return folder


@pytest.fixture
def user(template: Path, tmp_path: Path, cache: Path) -> User:
    shutil.copytree(template, tmp_path / "runs")
    return User(tmp_path, cache)


def told(user: User, *arguments: str) -> dict[str, Any]:
    return user.here(*arguments, "--json").document


def test_history_lists_the_latest_first(user: User) -> None:
    found = told(user, "history")
    assert found["indexed"] == 8
    assert [run["name"] for run in found["runs"]] == sorted((run["name"] for run in found["runs"]), reverse=True)
    [wrong] = told(user, "history", "--verdict", "differs")["runs"]
    assert (wrong["board"], wrong["model"], wrong["differing"]) == ("xavier", "acas_wl", "dense_3")
    assert len(told(user, "history", "--board", "kv260", "--model", "acas_sl", "--limit", "1")["runs"]) == 1
    assert len(told(user, "history", "--since", "2026-10-25", "--rebuild")["runs"]) == 4
    assert told(user, "history", "--since", "0d")["runs"] == []


def test_the_table_says_what_was_seen_and_where(user: User) -> None:
    lines = user.here("history").out.splitlines()
    assert re.match(
        r"20261025-020000-003_kv260_acas_sl +measured +EMULATED +measure: 5,030 instructions +5\.4s$", lines[1]
    )
    assert re.match(r"20261025-020000-002_kv260_acas_wl +identical +EMULATED +run: 100,000 vectors +21\.9s$", lines[2])
    assert re.match(r"20261025-020000-001_xavier_acas_sl +measured +hardware +measure: acas_coc: median 5", lines[3])
    assert re.match(r"20261025-020000-000_xavier_acas_wl +differs +hardware +run: 7 of 4,110,000 activations", lines[4])


def test_on_a_terminal_of_eighty_columns_a_name_stays_whole(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(console, "_console", lambda stream: Console(file=stream))
    lines = user.here("history").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].rstrip() == "20261025-020000-003_kv260_acas_sl   measured, EMULATED, 5.4s"
    assert lines[2].split() == ["measure:", "5,030", "instructions"]
    assert any(line.startswith("20261025-020000-001_xavier_acas_sl  measured, hardware, ") for line in lines)


def test_a_folder_of_runs_that_is_none_is_told(tmp_path: Path, cache: Path) -> None:
    user = User(tmp_path, cache)
    assert "0 of 0 runs in" in user.here("history").err
    assert (
        user.here("history").err.rstrip().endswith("which is not a folder: set another one with --runs or HARNESS_RUNS")
    )


def test_a_command_whose_words_nobody_can_read_never_ends_as_if_something_differed(user: User) -> None:
    with Path("/dev/full").open("w") as full:
        assert ended(user, full, full, "--json") == 3
        assert ended(user, full, subprocess.DEVNULL, "--board", "xavir", "--json") == 2


def ended(user: User, out: TextIO, err: TextIO | int, *words: str) -> int:
    command = [sys.executable, "-m", "harness", "--runs", str(user.folder / "runs"), "history", *words]
    return subprocess.run(command, check=False, stdout=out, stderr=err, stdin=subprocess.DEVNULL).returncode


HEAVY = ("scipy", "numpy", "onnx", "pydantic", "harness.runs.entries")


def test_history_of_an_index_that_is_up_to_date_imports_nothing_heavy(user: User) -> None:
    """These take longer to import than the whole command; `scipy` is never needed."""
    program = (
        "import sys; from harness.cli.main import cli; "
        f"cli.main(['--runs', {str(user.folder / 'runs')!r}, 'history'], standalone_mode=False); "
        f"print(*[name for name in {HEAVY} if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    ended = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(2)]
    found = [one.stdout.splitlines()[-1] for one in ended]
    assert "scipy" not in found[0]
    assert found[1] == ""


def test_what_would_deceive_a_terminal_is_left_out(user: User) -> None:
    folder = user.folder / "runs" / "one"
    folder.mkdir()
    text = run_document("x\x1b[2J", "m") | {"verdict": "differs", "reason": "\x1b]0;title\x07 [bold]no[/bold]"}
    (folder / "run.json").write_text(json.dumps(text))
    out = user.here("history", "--limit", "1").out
    assert "\x1b" not in out
    assert "[bold]no[/bold]" in out


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--verdict", "difers"], "unknown verdict 'difers'", "did you mean differs?"),
        (["--verdict", "not run"], "unknown verdict 'not run'", "identical, inconclusive, measured, regressed"),
        (["--board", "xavir"], "no run of board 'xavir'", "did you mean xavier?"),
        (["--model", "acas"], "no run of model 'acas'", "valid choices: acas_sl, acas_wl"),
        (["--since", "yesterday"], "'yesterday' is not a day", "2026-11-01"),
    ],
)
def test_a_slip_of_the_pen_is_told(user: User, arguments: list[str], message: str, hint: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        user.here("history", *arguments)
    assert hint in caught.value.hint


def names(user: User, *wanted: str) -> list[str]:
    """Of runs, the earliest first."""
    return [run["name"] for run in told(user, "history", *wanted)["runs"]][::-1]


def test_nothing_that_matters_changed(user: User) -> None:
    before, after = names(user, "--board", "kv260", "--model", "acas_wl")
    found = told(user, "diff", before, after)
    assert found["summary"] == "no relevant change: both are identical"
    assert found["nothing_changed"]
    assert (found["results"], found["layers"], found["causes"], found["times"]["parts"]) == ([], [], [], [])
    assert user.here("diff", before, after).out == "no relevant change: both are identical\n"


def test_a_run_that_is_newly_wrong(user: User) -> None:
    before, after = names(user, "--board", "xavier", "--model", "acas_wl")
    path = user.folder / "runs" / after / "run.json"
    document = json.loads(path.read_text())
    document["bundle"] |= {"compiler": "clang 22", "sha256": "0" * 64}
    path.write_text(json.dumps(document))
    found = told(user, "diff", str(user.folder / "runs" / before), after)
    assert found["summary"] == "identical before, differs now"
    assert found["layers"] == [{"layer": "dense_3", "before": 0, "after": 7, "words": "differs now"}]
    assert [change["topic"] for change in found["causes"]] == ["compiler", "program"]
    out = user.here("diff", before, after).out
    order = ["identical before, differs now", "dense_3", "Possible causes:", "clang 22"]
    assert [out.index(text) for text in order] == sorted(out.index(text) for text in order)


@functools.cache
def timed() -> dict[str, Any]:
    """The statistics are not asked for: times are judged by the readings."""
    return documents.timed(documents.gumbel(2000))


def measure(user: User, name: str, seed: int, location: float = 50_000) -> Path:
    """A measurement with its readings."""
    folder = user.folder / "runs" / name
    folder.mkdir()
    series = documents.gumbel(2000, seed=seed, location=location)
    np.save(folder / "readings.npy", series[:, None])
    document = timed() | {"started": f"2026-11-{10 + seed}T00:00:00Z"}
    document["readings"] = {"file": "readings.npy", "sha256": file_sha256(folder / "readings.npy")}
    (folder / "run.json").write_text(json.dumps(document))
    return folder


def test_times_are_judged_by_their_noise(user: User) -> None:
    for seed in (1, 2, 3):
        measure(user, f"m{seed}", seed)
    measure(user, "slow", 4, 60_000)
    same = told(user, "diff", "m2", "m3")
    assert same["nothing_changed"]
    assert [part["verdict"] for part in same["times"]["parts"]] == ["unchanged"]
    assert same["times"]["noise_of"] == ["m1"]
    slow = told(user, "diff", "m3", "slow")
    assert slow["summary"] == "both are measured, but times moved: slower"
    assert [part["verdict"] for part in slow["times"]["parts"]] == ["slower"]
    assert slow["times"]["noise_of"] == ["m2", "m1"]
    assert "slower" in user.here("diff", "m3", "slow").out


def test_times_of_readings_that_were_changed_are_not_judged(user: User) -> None:
    measure(user, "m1", 1)
    folder = measure(user, "m2", 2)
    np.save(folder / "readings.npy", documents.gumbel(2000)[:, None])
    assert told(user, "diff", "m1", "m2")["times"]["because"] == "readings.npy was changed or is missing: m2"


def test_times_of_different_things_are_not_compared(user: User) -> None:
    measure(user, "m1", 1)
    [counted] = names(user, "--board", "kv260", "--model", "acas_sl", "--limit", "1")
    found = told(user, "diff", "m1", counted)
    assert found["times"]["because"] == "different quantity, scope and parts, kind of board"


def test_counts_are_compared_exactly(user: User) -> None:
    before, after = names(user, "--board", "kv260", "--model", "acas_sl")
    path = user.folder / "runs" / after / "run.json"
    document = json.loads(path.read_text())
    document["parts"][1]["max"] += 1
    path.write_text(json.dumps(document))
    found = told(user, "diff", before, after)
    assert [part["verdict"] for part in found["times"]["parts"]] == ["unchanged", "slower", "unchanged"]
    assert not found["nothing_changed"]


def test_what_is_no_finished_run_cannot_be_compared(user: User) -> None:
    [run] = names(user, "--verdict", "differs")
    unfinished = user.folder / "runs" / "unfinished"
    unfinished.mkdir()
    (unfinished / "request.json").write_text("{}")
    (unfinished / "attempts.jsonl").write_text(
        '{"began": "x"}\n{"stopped": "y", "part": "board", "reason": "no answer"}\n'
    )
    with pytest.raises(RequestError, match="has not finished: no answer"):
        user.here("diff", run, "unfinished")
    with pytest.raises(RequestError, match="unknown run ") as caught:
        user.here("diff", run, run[:-1])
    assert f"did you mean {run}" in caught.value.hint
    (unfinished / "run.json").write_text("{")
    with pytest.raises(RequestError, match="cannot be read"):
        user.here("diff", run, "unfinished")


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("sign", "--key", "key"),
        ("run", "--resume"),
        ("measure", "--board", "host", "--model", "acas_coc", "--against"),
    ],
)
def test_every_command_finds_a_run_by_its_name(user: User, words: tuple[str, ...]) -> None:
    [run] = names(user, "--verdict", "differs")
    for given in (run[:-1], f"runs/{run[:-1]}"):
        with pytest.raises(RequestError, match=f"unknown run '{given}'") as caught:
            user.here(*words, given)
        assert f"did you mean {run}" in caught.value.hint


def test_a_document_of_another_kind_is_refused_in_words(user: User) -> None:
    one, two = names(user, "--board", "kv260", "--model", "acas_wl")
    path = user.folder / "runs" / two / "run.json"
    document = json.loads(path.read_text())
    make_wrong(document)
    document["plan"]["tasks"] = 7
    path.write_text(json.dumps(document))
    with pytest.raises(RequestError, match=r"cannot be read: ValueError: plan\.tasks: Input should be a valid array"):
        user.here("diff", one, two)


def test_a_site_is_written_and_kept_up_to_date(user: User) -> None:
    folder = user.folder / "site"
    first = told(user, "report", "--site", str(folder))
    assert (first["nights"], first["runs"], first["kept"]) == (2, 8, 0)
    assert Path(first["site"]).read_text().count("<tr") > 8
    assert (told(user, "report", "--site", str(folder))["pages"]) == 0
    assert "2 nights, 8 runs; 0 pages written" in user.here("report", "--site", str(folder)).out
