"""A laboratory without boards: commands that answer as harness's do, and a clock that jumps from event to event.

It is strict.  Every command line is read by harness's own parsers; a run folder is made, resumed and finished as a run
does it; who asks for what a real command would refuse gets its exit code 2.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from harness.applications.nightly.job_commands import JobCommands
from harness.applications.nightly.previous_nights import Past
from harness.applications.nightly.result_parser import Said
from harness.applications.nightly.schedule import BoardJob
from harness.cli.main import cli
from harness.core.outcome import Outcome
from harness.runs.history.night_record import Entry, Result

TEN_MINUTES_S = 600.0


@dataclass(frozen=True)
class Answer:
    """How a command ends: of an attempt with a verdict, of a check or a cycle with whether all is well."""

    verdict: str = "identical"
    part: str = ""
    took_s: float = TEN_MINUTES_S
    reason: str = "as simulated"
    differs_so_far: bool = False
    in_use: str = ""
    code: int | None = None
    """In place of the one that belongs to the verdict, and then without a document."""


@dataclass(frozen=True)
class Command:
    """What was asked: the sub-command, its board, its options."""

    name: str
    board: str
    options: Mapping[str, Any]


Behaviour = Callable[[Command], Answer]


def read(words: Sequence[str], boards: Mapping[str, str]) -> Command:
    """The command that harness itself would carry out; `boards` are those of the run folders that can be resumed."""
    command: click.Command = cli
    names: list[str] = []
    rest = list(words)
    while isinstance(command, click.Group):
        names.append(rest.pop(0))
        found = command.get_command(click.Context(command), names[-1])
        assert found is not None
        command = found
    options = command.make_context(names[-1], rest).params
    assert options["as_json"]
    named = options.get("names") or (options.get("board"),)
    board = named[0] or boards[str(options["resume"])]
    return Command(" ".join(names), board, options)


@dataclass
class Simulated:
    """Implements harness.applications.nightly.campaign.Runner; `behave` says how each command ends."""

    behave: Behaviour
    clock_s: float = 1_000_000.0
    due: list[tuple[float, int, str]] = field(default_factory=list)
    running: dict[str, tuple[Command, Answer, float]] = field(default_factory=dict)
    seen: list[Command] = field(default_factory=list)
    folders: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    most: int = 0
    busy_s: float = 0.0

    def now_s(self) -> float:
        return self.clock_s

    def start(self, name: str, words: Sequence[str], log: Path, limit_s: float) -> None:
        command = read(words, self.folders)
        assert command.board == name
        assert name not in self.running, f"two jobs at once on {name}"
        log.touch()
        answer = self._refused(command) or self.behave(command)
        if answer.took_s > limit_s:
            answer = Answer(took_s=limit_s, code=124)
        self.seen.append(command)
        self.running[name] = (command, answer, self.clock_s)
        self.most = max(self.most, len(self.running))
        self.busy_s += answer.took_s
        heapq.heappush(self.due, (self.clock_s + answer.took_s, len(self.seen), name))

    def wait(self, timeout_s: float | None = None) -> tuple[str, Said, float] | None:
        if timeout_s is not None and (not self.due or self.due[0][0] > self.clock_s + timeout_s):
            self.clock_s += timeout_s
            return None
        self.clock_s, _, name = heapq.heappop(self.due)
        command, answer, began_s = self.running.pop(name)
        return name, self._said(command, answer), self.clock_s - began_s

    def _refused(self, command: Command) -> Answer | None:
        """As of a run folder that is there already, or is not."""
        resume, new = command.options.get("resume"), command.options.get("run_folder")
        if resume and (not (resume / "request.json").exists() or (resume / "run.json").exists()):
            return Answer(code=2, took_s=1.0)
        if new and Path(new).exists():
            return Answer(code=2, took_s=1.0)
        if new:
            Path(new).mkdir(parents=True)
            (Path(new) / "request.json").write_text("{}")
            self.folders[str(new)] = command.board
        return None

    def _said(self, command: Command, answer: Answer) -> Said:
        if answer.code is not None:
            return Said(answer.code, "", ("last words",))
        if command.name.startswith("boards"):
            return self._said_of_board(command, answer)
        outcome = Outcome(answer.verdict)
        folder = str(command.options.get("resume") or command.options["run_folder"])
        document = {"verdict": str(outcome), "reason": answer.reason, "run": folder}
        if outcome.final:
            (Path(folder) / "run.json").write_text(json.dumps(document))
            self.ended.append(folder)
        else:
            document |= {"part": answer.part, "reason": f"{answer.part}: {answer.reason}"}
            document |= {"hint": "", "differs_so_far": answer.differs_so_far}  # type: ignore[dict-item]
            document |= {"in_use": answer.in_use} if answer.in_use else {}
        return Said(outcome.exit_code, json.dumps(document), ("noted",))

    def _said_of_board(self, command: Command, answer: Answer) -> Said:
        well = answer.verdict == "identical"
        if command.name == "boards cycle":
            failed = {"error": answer.reason, "exit_code": 3} | ({"in_use": answer.in_use} if answer.in_use else {})
            return Said(0 if well else 3, "{}" if well else json.dumps(failed))
        board = {"board": command.board, "ok": well, "part": answer.part, "reason": "" if well else answer.reason}
        board["in_use"] = answer.in_use
        return Said(0 if well else 3, json.dumps({"boards": [board]}))


def well(command: Command) -> Answer:
    """All boards are well, all programs right."""
    if command.name.startswith("boards"):
        return Answer(took_s=5.0)
    return Answer("measured" if command.name == "measure" else "identical")


@dataclass
class Nobody:
    """Looks on and remembers; implements harness.applications.nightly.campaign.Watcher."""

    begun: list[BoardJob] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    awaits: list[Mapping[str, str]] = field(default_factory=lambda: [{}])

    def job_started(self, job: BoardJob, _log: Path, _now_s: float) -> None:
        self.begun.append(job)

    def job_ended(self, job: BoardJob, told: str) -> None:
        self.told.append(f"{job.board}: {told}")

    def concluded(self, entry: Entry, _result: Result) -> None:
        self.order.append(entry.number)

    def awaited(self, taken: Mapping[str, str]) -> None:
        if taken != self.awaits[-1]:
            self.awaits.append(dict(taken))


def commands(runs: Path, night: str, past: Past | None = None) -> JobCommands:
    return JobCommands(runs, night, past or Past(()), lambda _entry, _folder: True)
