"""Nights on this machine: real commands in real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click
import pytest

from harness.applications.nightly import checks, matrix, summary
from harness.applications.nightly import command as nightly
from harness.applications.nightly.campaign import Campaign
from harness.applications.nightly.command import taken
from harness.applications.nightly.matrix import NightSpec
from harness.boards import profile, workspace
from harness.boards.locks import hold
from harness.boards.locks.ticket import Owner
from harness.boards.profile import BoardProfiles
from harness.core.errors import RequestError, ToolError
from harness.runs.history import night_record as record
from tests.support.cli.command import User

RUN = "{boards: [host], models: [acas_coc], vectors: 240, chunk: 10, trace: 0}"
MEASURE = "{action: measure, boards: [host], models: [acas_coc], samples: 100, warmup: 0, against: 1}"
PATIENCE_S = 100.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> User:
    """Somebody with a file of a run and a measurement."""
    folder = tmp_path_factory.mktemp("my lab 100%")
    (folder / "lab.yaml").write_text(f"matrices:\n  - {RUN}\n  - {MEASURE}\n")
    return User(folder, cache)


@pytest.fixture(scope="module")
def night(lab: User) -> dict[str, Any]:
    """Killed by SIGKILL after a chunk, gone on with, interrupted by Ctrl-C, gone on with to its end."""
    file = str(lab.folder / "lab.yaml")
    for number, words in ((signal.SIGKILL, "chunk 0"), (signal.SIGINT, "resuming after")):
        process = lab.start("nightly", file, "--json")
        until(lambda words=words: words in progress(lab), process)  # type: ignore[misc]
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (3, "")
    assert "resuming night" in err
    assert "1 of 2 entries are finished" in err
    assert "the night is kept: the same command resumes it, --new starts a new night" in err
    ended = lab.harness("nightly", file, "--resume", "--json", "--junit", str(lab.folder / "junit.xml"))
    assert ended.code == 0, ended.err
    return ended.document


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s
        time.sleep(0.01)


def progress(lab: User) -> str:
    """What the run has said so far, and whether it has a chunk."""
    folders = list(lab.folder.glob("runs/*-000_*"))
    chunks = "chunk 0" if any((folder / "chunks" / "00000.json").exists() for folder in folders) else ""
    return chunks + "".join(log.read_text() for folder in folders for log in folder.glob("log.txt"))


def evidence(lab: User, run: str) -> dict[str, Any]:
    return dict(json.loads((lab.folder / "runs" / run / "run.json").read_text()))


@pytest.mark.campaign
def test_a_killed_and_interrupted_night_ends_with_the_evidence_of_every_entry(lab: User, night: dict[str, Any]) -> None:
    run, measured = night["entries"]
    assert [run["outcome"], measured["outcome"]] == ["identical", "measured"]
    assert run["key"] == "run host acas_coc --vectors=240 --chunk=10 --trace=0"
    assert run["run"] == f"{night['night']}-000_host_acas_coc"
    assert "resuming after" in (lab.folder / "runs" / run["run"] / "log.txt").read_text()
    document = evidence(lab, run["run"])
    assert len(document["attempts"]) == 3
    undisturbed = lab.here(
        "run", "--board=host", "--model=acas_coc", "--vectors=240", "--chunk=10", "--trace=0", "--json"
    )
    assert document["content_sha256"] == evidence(lab, Path(undisturbed.document["run"]).name)["content_sha256"]


def test_what_a_night_keeps(lab: User, night: dict[str, Any]) -> None:
    kept = record.read(Path(night["folder"]))
    assert kept.ended_s is not None
    assert kept.boards["host"].quarantined == ""
    assert summary.board_kinds(kept) == {"host": "this machine"}
    assert [result.retries for result in kept.results.values()] == [0, 0]
    logs = [(kept.folder / "logs" / name).read_text() for name in ("00000.log", "00001.log")]
    assert [log.count("=== ") for log in logs] == [3, 1], "measured first, alone, and never again"
    assert "verdict: identical" in logs[0]
    assert (lab.folder / "junit.xml").read_text() == Path(night["junit"]).read_text()
    [suite] = ET.parse(night["junit"]).getroot()  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "0")
    again = lab.here("nightly", str(lab.folder / "lab.yaml"), "--resume", "--json")
    assert (again.code, again.document["night"]) == (0, None)


def test_the_next_night_begins_with_what_was_done_longest_ago(lab: User, night: dict[str, Any]) -> None:
    shown = lab.here("nightly", str(lab.folder / "lab.yaml"), "--dry-run", "--json").document
    assert shown["order"] == [night["entries"][1]["key"], night["entries"][0]["key"]]


def test_a_night_without_a_change_sends_nothing(lab: User, night: dict[str, Any]) -> None:
    file = lab.folder / "lab.yaml"
    content = file.read_text()
    file.write_text(f"{content}\nnotify: {{webhook: 'http://127.0.0.1:9'}}\n")
    shown = lab.here("nightly", str(file), "--dry-run").err
    file.write_text(content)
    assert f"that about night {night['night']} would not be sent: the night changed nothing" in shown


def test_only_a_measurement_of_the_same_thing_is_compared_with(
    lab: User, night: dict[str, Any], laboratory: BoardProfiles
) -> None:
    comparable = checks.comparer(laboratory, workspace.find(None, lab.folder / "runs"), taken())
    run, measured = (lab.folder / "runs" / entry["run"] for entry in night["entries"])
    kept = record.read(Path(night["folder"]))
    _, entry = kept.entries
    assert comparable(entry, measured)
    assert not comparable(entry, run)
    assert not comparable(replace(entry, model="acas_wl"), measured)
    assert not comparable(replace(entry, options=("--scope=layer",)), measured)
    assert not comparable(entry, lab.folder / "gone")


def test_a_run_that_was_built_from_other_sources_is_begun_anew(tmp_path: Path, cache: Path) -> None:
    """As after a pull between the night and its going on, which finds the file by another name."""
    user, file, name = User(tmp_path, cache), tmp_path / "lab.yaml", "night-000_host_acas_coc"
    file.write_text("matrices: [{boards: [host], models: [acas_coc], vectors: 20, chunk: 10, trace: 0}]")
    folder = tmp_path / "runs" / name
    asked = ("--board=host", "--model=acas_coc", "--vectors=20", "--chunk=10", "--trace=0")
    assert user.here("run", *asked, f"--run-folder={folder}").code == 0
    (folder / "run.json").unlink()
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"bundle": "0" * 64}))
    spec = matrix_of(file, user)
    night = record.create(tmp_path / "runs" / "nights" / "night", time.time(), str(file), spec.sha256, spec.entries)
    record.keep_begun(night.folder, record.Begun(0, (), time.time(), name))
    ended = user.here("nightly", f"{tmp_path}/../{tmp_path.name}/lab.yaml", "--resume", "--json")
    [entry] = ended.document["entries"]
    assert (entry["outcome"], entry["run"], entry["retries"]) == ("identical", f"{name}_2", 1)
    told = record.read(night.folder).results[0].attempts[0].ending.reason
    assert "the unfinished run cannot be resumed" in told
    assert "started with bundle 0000000000000000" in told
    assert not (folder / "run.json").exists()


def matrix_of(file: Path, user: User) -> NightSpec:
    space = workspace.find(user.boards, user.folder / "runs")
    return matrix.read(file, taken(), checks.Checks(profile.load(space.boards), space))


def test_what_a_night_has_shown_is_told_when_it_is_ended_as_it_is(tmp_path: Path, cache: Path) -> None:
    user, file = User(tmp_path, cache), tmp_path / "lab.yaml"
    file.write_text(f"matrices:\n  - {RUN}\n")
    entry = matrix_of(file, user).entries[0]
    night = record.create(tmp_path / "runs" / "nights" / "1", time.time(), str(file), "other", (entry,))
    record.keep_begun(night.folder, record.Begun(0, (), time.time(), "run"))
    (tmp_path / "runs" / "run").mkdir()
    (tmp_path / "runs" / "run" / "run.json").write_text('{"verdict": "differs", "reason": "one of them"}')
    ended = user.here("nightly", str(file), "--resume")
    assert "night 1 is closed without its remaining entries: lab.yaml was changed since: 1 differs" in ended.err
    assert f"differs, expected identical: {entry.key}: one of them (runs/run)" in ended.err.replace("\n", " ")
    assert 'failures="1"' in (night.folder / "junit.xml").read_text()


@pytest.mark.parametrize("name", ["gone/junit.xml", "."])
def test_a_place_for_junit_that_is_none_is_told_before_the_night(tmp_path: Path, cache: Path, name: str) -> None:
    (tmp_path / "lab.yaml").write_text(f"matrices:\n  - {RUN}\n")
    with pytest.raises(RequestError, match="--junit"):
        User(tmp_path, cache).here("nightly", str(tmp_path / "lab.yaml"), "--junit", str(tmp_path / name))
    assert not (tmp_path / "runs").exists()


def test_a_night_is_told_also_where_its_junit_cannot_be_written(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder for it was removed meanwhile; the night has nothing to do."""
    (tmp_path / "lab.yaml").write_text(f"matrices:\n  - {RUN}\n")
    monkeypatch.setattr(nightly, "_make_way", lambda _file: None)
    monkeypatch.setattr(Campaign, "carry_out", lambda _campaign: None)
    ended = User(tmp_path, cache).here(
        "nightly", str(tmp_path / "lab.yaml"), "--json", "--junit", str(tmp_path / "gone" / "junit.xml")
    )
    assert ended.code == 3
    assert ended.document["counts"] == {"not run": 1}
    assert "warning: cannot write" in ended.err


def test_the_junit_of_a_former_night_does_not_stay(tmp_path: Path, cache: Path) -> None:
    """A file that is refused must not look like yesterday's success."""
    junit = tmp_path / "junit.xml"
    junit.write_text("of yesterday")
    with pytest.raises(RequestError, match="there is no such file"):
        User(tmp_path, cache).here("nightly", str(tmp_path / "gone.yaml"), "--junit", str(junit))
    assert not junit.exists()


def test_nights_that_nobody_goes_on_with_are_ended_as_they_are(tmp_path: Path, cache: Path) -> None:
    """The file was changed since; a night of another file is left alone."""
    user, file = User(tmp_path, cache), tmp_path / "lab.yaml"
    file.write_text(f"until: '00:00'\nmatrices:\n  - {RUN}\n")
    other, now_s = tmp_path / "other.yaml", time.time()
    for name, began_s, path in (("1", now_s, file), ("2", 5.0, file), ("3", now_s, other), ("4", 5.0, other)):
        record.create(tmp_path / "runs" / "nights" / name, began_s, str(path), "other", ())
    ended = user.here("nightly", str(file), "--resume")
    assert ended.code == 0
    assert "night 1 is closed without its remaining entries: lab.yaml was changed since" in ended.err
    nights = {night.name: night for night in map(record.read, record.folders(tmp_path / "runs"))}
    assert nights["1"].ended_s == nights["1"].began_s
    assert nights["3"].ended_s is None
    assert [nights[name].ended_s for name in "24"] == [5.0, 5.0]
    assert (nights["4"].folder / "junit.xml").exists()


def test_a_board_that_does_not_answer_is_quarantined(tmp_path: Path, cache: Path) -> None:
    """Nothing listens there, and the profile names no power switch."""
    user = User(tmp_path, cache).with_local("xavier: {address: {host: 127.0.0.1, port: 1}}")
    (tmp_path / "lab.yaml").write_text("matrices: [{boards: [xavier], models: [acas_coc, acas_wl]}]")
    ended = user.here("nightly", str(tmp_path / "lab.yaml"), "--json")
    assert ended.code == 3
    [reason] = ended.document["quarantined"].values()
    assert "127.0.0.1" in reason
    assert {entry["reason"] for entry in ended.document["entries"]} == {f"board xavier is quarantined: {reason}"}
    assert [entry["outcome"] for entry in ended.document["entries"]] == ["not run", "not run"]


def test_a_wrong_file_is_refused_before_anything_begins(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "lab.yaml").write_text("matrices:\n  - boards: [hots]\n    models: [acas_coc]\n")
    with pytest.raises(RequestError, match=r"lab.yaml:2: unknown board 'hots'"):
        User(tmp_path, cache).here("nightly", str(tmp_path / "lab.yaml"))
    assert not (tmp_path / "runs").exists()
    with pytest.raises(RequestError, match="there is no such file"):
        User(tmp_path, cache).here("nightly", str(tmp_path / "gone" / "lab.yaml"))


@pytest.fixture
def _summer_time() -> Iterator[None]:
    """The clock of this machine as that of most of Europe: put forward from 02:00 to 03:00."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_summer_time")
@pytest.mark.parametrize("works", [True, False])
def test_a_timer_is_installed(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, *, works: bool) -> None:
    """By a systemctl that remembers what it was asked; systemd serves no users here."""
    (tmp_path / "lab.yaml").write_text(f"matrices:\n  - {RUN}\n")
    (tmp_path / "bin").mkdir()
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.write_text(
        f"#!/bin/sh\necho \"$@\" >> '{tmp_path}/asked'\n{'' if works else 'echo no bus >&2; exit 1'}\n"
    )
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    user, words = User(tmp_path, cache), ("nightly", str(tmp_path / "lab.yaml"), "--install", "02:30")
    if works:
        ended = user.here(*words)
        assert "OnCalendar=*-*-* 02:30:00" in ended.out
        assert "the change to summer time skips 02:30, so that night does not start" in ended.err.replace("\n", " ")
        assert (tmp_path / "asked").read_text().splitlines() == [
            "--user daemon-reload",
            "--user enable --now harness-lab.timer",
            "--user enable harness-lab-resume.service",
        ]
    else:
        with pytest.raises(ToolError, match="no bus") as caught:
            user.here(*words)
        assert re.search(r"harness (--lab \S+ )?--boards", caught.value.hint)
    units = tmp_path / "config" / "systemd" / "user"
    assert f'"{tmp_path}/lab.yaml" "--resume"' in (units / "harness-lab-resume.service").read_text()
    (tmp_path / "other").mkdir()
    other = (tmp_path / "lab.yaml").rename(tmp_path / "other" / "lab.yaml")
    with pytest.raises(RequestError, match="starts the nights of another file than"):
        user.here("nightly", str(other), "--install", "02:30")


def test_a_timer_has_no_junit_of_its_own(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(click.UsageError, match="--junit"):
        User(tmp_path, cache).here("nightly", str(tmp_path / "lab.yaml"), "--install", "02:30", "--junit", "x")


def test_a_board_that_somebody_has_is_waited_for_and_its_limit_does_not_run(
    tmp_path: Path, cache: Path, laboratory: BoardProfiles
) -> None:
    """By the name that the night does not use for it."""
    user, file = User(tmp_path, cache), tmp_path / "lab.yaml"
    file.write_text("matrices: [{boards: [host], models: [acas_coc], vectors: 20, chunk: 10, trace: 0, limit: 100s}]")
    board, told = laboratory.board("local-gpu"), ""
    with hold(board, workspace.find().locks(board), "soldering", 0, print):
        process = user.start("nightly", str(file), "--json")
        while "its entries wait" not in told:
            told = process.stderr.readline()  # type: ignore[union-attr]
            assert told
        assert f"host: board host is in use by {Owner.me('soldering')} since " in told
        assert not list(tmp_path.glob("runs/*_host_*"))
    out, err = process.communicate(timeout=PATIENCE_S)
    [entry] = json.loads(out)["entries"]
    assert (process.returncode, entry["outcome"], entry["retries"]) == (0, "identical", 0), err


def test_boards_that_are_one_machine_are_told_before_the_night(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("matrices: [{boards: [host, xavier, local-gpu], models: [acas_coc], items: ['c,c']}]")
    user = User(tmp_path, cache)
    assert (
        "host and local-gpu are one machine: their entries run one after the other"
        in user.here("nightly", str(file), "--dry-run").out
    )
    shown = user.here("nightly", str(file), "--dry-run", "--json").document
    assert (shown["boards"], shown["one"]) == (3, [["host", "local-gpu"]])


def test_a_measurement_of_this_machine_has_the_first_turn_and_is_shown_there(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("matrices: [{boards: [host], models: [acas_coc]}, "
                    "{action: measure, boards: [xavier, host], models: [acas_coc]}]")  # fmt: skip
    user = User(tmp_path, cache)
    shown = user.here("nightly", str(file), "--dry-run", "--json").document
    assert shown["order"] == ["measure host acas_coc", "run host acas_coc", "measure xavier acas_coc"]
    assert "at most 1 retry of failed infrastructure" in user.here("nightly", str(file), "--dry-run").out


def test_where_no_night_can_be_kept_none_is_said_to_be(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("matrices: [{boards: [host], models: [acas_coc]}]")
    (tmp_path / "runs").write_text("where a folder should be")
    with pytest.raises(RequestError, match=r"runs is not a folder"):
        User(tmp_path, cache).here("nightly", str(file))
