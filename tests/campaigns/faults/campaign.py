"""One fault at one step: what the run said, what was left, and what it came to when it was resumed."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.boards import profile
from harness.boards.locks import hold
from harness.core.errors import BoardError
from harness.core.file_digest import file_sha256
from harness.runs.folder import RunFolder
from tests.campaigns.faults.faults import Fault
from tests.campaigns.faults.laboratory import CHUNKS, NAME, WORK, Laboratory
from tests.campaigns.faults.stage import STAGE, SYNCHRONISED, Step
from tests.support.cli.command import Ended

ENDED_WITHIN_S = 100.0
FREE_WITHIN_S = 20.0
KILLED, IDENTICAL, INCONCLUSIVE = "killed", "identical", "inconclusive"
FINISHED = {Step.DEPLOY: 0, Step.EXECUTE: 0, Step.END: CHUNKS}
"""Chunks that are finished when a run comes to a step; else that of the chunk before."""


@dataclass(frozen=True)
class First:
    """How a run ended to which something happened; one that was killed has said nothing."""

    verdict: str
    part: str
    reason: str
    hint: str
    kept: int


@dataclass(frozen=True)
class Cell:
    """What a fault did at a step, and what of that is wrong.

    `free_s` after it was done the command had ended, nothing of it was left on this machine, and the board was free.
    """

    fault: str
    step: Step
    first: First
    free_s: float
    resumed: bool
    complaints: tuple[str, ...]


def undisturbed(lab: Laboratory) -> str:
    """The hash of what a run shows to which nothing happens."""
    ended = lab.harness(lab.disk / "undisturbed", *lab.run)
    assert ended.code == 0, ended.err
    return _shown(Path(ended.document["run"]))


def attempt(lab: Laboratory, fault: Fault, step: Step, expected: str) -> Cell:
    """Do it; `expected` is what an undisturbed run shows."""
    shutil.rmtree(lab.disk / "run", ignore_errors=True)
    (lab.folder / SYNCHRONISED).write_text("")
    fault.prepare(lab, step)
    with lab.scene(lab.disk / "run", step, **dict.fromkeys(fault.environment, "1")) as scene:
        fault.strike(lab, scene)
        struck_s = time.monotonic()
        ended = scene.ended()
    [run] = (lab.disk / "run" / "runs").iterdir()
    kept = {path.name: path.stat().st_mtime_ns for path in (run / "chunks").glob("*.json")}
    first = _first(ended, len(kept))
    complaints = [*_wrong_in_first(fault, step, first, ended)]
    complaints += _others(lab, expected)
    left = _await_nothing(lab)
    free_s = time.monotonic() - struck_s
    fault.mend(lab)
    left = left or _left_on_board(lab)
    complaints += [f"left: {left}"] if left else []
    complaints += [f"ended after {free_s:.0f} s"] if free_s > ENDED_WITHIN_S else []
    complaints += _wrong_on_board(lab, first)
    if first.verdict != IDENTICAL:
        complaints += _wrong_in_second(lab, fault, run, kept)
    complaints += _wrong_in_evidence(run, expected)
    return Cell(fault.name, step, first, free_s, first.verdict != IDENTICAL, tuple(complaints))


def _first(ended: Ended, kept: int) -> First:
    if not ended.out:
        return First(KILLED, "", "", "", kept)
    document = ended.document
    return First(document["verdict"], document.get("part", ""), document["reason"], document.get("hint", ""), kept)


def _wrong_in_first(fault: Fault, step: Step, first: First, ended: Ended) -> Iterator[str]:
    if "Traceback" in ended.err:
        yield f"a traceback: {ended.err[-300:]}"
    if first.verdict not in {IDENTICAL, INCONCLUSIVE, KILLED}:
        yield f"the verdict is {first.verdict}"
    if first.verdict == IDENTICAL and step in fault.deadly:
        yield "it went on as if nothing had happened"
    if first.verdict == INCONCLUSIVE:
        if first.part not in fault.parts or not re.search(fault.cause, first.reason):
            yield f"blames {first.reason!r}"
        if not first.hint:
            yield f"does not say what to do: {first.reason!r}"
    if first.kept < FINISHED.get(step, 1):
        yield f"{first.kept} chunks are kept"


def _others(lab: Laboratory, expected: str) -> Iterator[str]:
    """Who else was there."""
    while lab.others:
        out, err = lab.others.pop().communicate(timeout=100)
        document = json.loads(out)
        if document["verdict"] != IDENTICAL or _shown(Path(document["run"])) != expected:
            yield f"the other user: {document['verdict']}: {err[-300:]}"
        shutil.rmtree(document["run"], ignore_errors=True)


def _await_nothing(lab: Laboratory) -> str:
    """Wait until nothing of the run is left and the board is free; gives what is still there after `FREE_WITHIN_S`."""
    end_s = time.monotonic() + FREE_WITHIN_S
    while left := _left_here(lab):
        if time.monotonic() > end_s:
            return left
        time.sleep(0.02)
    return ""


def _left_here(lab: Laboratory) -> str:
    try:
        board = profile.load(lab.boards, {}).board(NAME)
        with hold(board, lab.locks, "look", 0.0, lambda _: None):
            pass
    except BoardError as error:
        return error.message
    marked = [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if _is_marked(path)]
    return f"processes {' '.join(marked)}" if marked else ""


def _is_marked(path: Path) -> bool:
    try:
        return f"{STAGE}=".encode() in path.read_bytes()
    except OSError:  # it has just ended, or is another user's
        return False


def _left_on_board(lab: Laboratory) -> str:
    """Programs that still run there, when the way to it is mended."""
    end_s = time.monotonic() + FREE_WITHIN_S
    while left := lab.shell("pidof inference cat tar sha256sum"):
        if time.monotonic() > end_s:
            return f"{left} on the board"
        time.sleep(0.1)
    return ""


def _wrong_on_board(lab: Laboratory, first: First) -> Iterator[str]:
    """A run that has ended by itself, and could reach its board, gives back what it took of its disk."""
    if first.part in {"board", "tool"} and (left := lab.shell(f"ls {WORK}/runs")):
        yield f"folders on the board: {left}"


def _wrong_in_second(lab: Laboratory, fault: Fault, run: Path, kept: dict[str, int]) -> Iterator[str]:
    ended = lab.harness(lab.disk / "run", "run", "--resume", str(run), "--json")
    if ended.code != 0:
        yield f"resumed: {ended.out[:600]} {ended.err[-600:]}"
        return
    again = [name for name, time_ns in kept.items() if (run / "chunks" / name).stat().st_mtime_ns != time_ns]
    if again and not fault.tears:
        yield f"done again: {' '.join(again)}"
    before = RunFolder(run).attempts()[:-1]
    if [each["part"] in {*fault.parts, "host"} for each in before] != [True]:
        yield f"attempts: {before}"
    if (runs := lab.shell(f"ls {WORK}/runs")) != "":
        yield f"folders on the board: {runs}"


def _wrong_in_evidence(run: Path, expected: str) -> Iterator[str]:
    if not (run / "run.json").exists():
        return
    document = _run_of(run)
    if document["verdict"] != IDENTICAL:
        yield f"the verdict of run.json is {document['verdict']}"
    if document["content_sha256"] != expected:
        yield "it does not show what an undisturbed run shows"
    there = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file()}
    del there["run.json"]
    if document["files"] != {name: file_sha256(path) for name, path in there.items()}:
        yield "its files are not those that run.json lists"
    if not 0 <= document["wall_s"] < 1000 or not document["vectors_per_s"] > 0:
        yield f"it says that it took {document['wall_s']} s"


def _run_of(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "run.json").read_text())
    return document


def _shown(run: Path) -> str:
    return str(_run_of(run)["content_sha256"])
