"""Execution of a night: the schedule chooses jobs, commands run them, and each result is recorded immediately."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.applications.nightly import result_parser, schedule
from harness.applications.nightly.job_commands import JobCommand, JobCommands, finished_run
from harness.applications.nightly.result_parser import Said
from harness.applications.nightly.schedule import (
    BoardJob,
    JobKind,
    NightState,
    Rules,
    attempted,
    closed,
    cured,
    fair,
    result,
    start,
    startable,
)
from harness.core.errors import EXIT_REQUEST
from harness.core.outcome import Ending, Outcome
from harness.core.text import duration
from harness.runs.folder import differs_so_far
from harness.runs.history import night_record as record
from harness.runs.history.night_record import Attempt, Begun, Entry, Health, Night, Result

INTERRUPTED = 3
"""Number of resumes of an entry after its night was interrupted; limited because the entry may crash this machine."""
LOOK_S = 2.0
"""Seconds between two checks of boards that other users have."""

Holder = Callable[[str], str]
"""Returns the holder of a board outside the night; empty if the board is free."""


class Runner(Protocol):
    """Interface to running commands; `harness.applications.nightly.process_pool` implements it."""

    def now_s(self) -> float:
        """Return seconds since 1970."""

    def start(self, name: str, words: Sequence[str], log: Path, limit_s: float) -> None:
        """Start `harness WORDS`."""

    def wait(self, timeout_s: float | None = None) -> tuple[str, Said, float] | None:
        """Wait until a command ends; return its name, its result and its duration in seconds.

        None if all commands still run after `timeout_s`.
        """


class Watcher(Protocol):
    """Progress observer."""

    def job_started(self, job: BoardJob, log: Path, now_s: float) -> None:
        """Note the start of a command."""

    def job_ended(self, job: BoardJob, message: str) -> None:
        """Note the end of a job; `message` is empty if it did nothing because another user has the board."""

    def concluded(self, entry: Entry, result: Result) -> None:
        """Note the end of an entry."""

    def awaited(self, taken: Mapping[str, str]) -> None:
        """Note the boards that the night waits for because other users have them."""


@dataclass(frozen=True)
class Running:
    """A job whose command was started."""

    job: BoardJob
    command: JobCommand
    began_s: float


@dataclass
class Campaign:
    """A running night; `differed` are entries whose chunks showed a difference when it was interrupted.

    `holder` is called for a board without a running job of the night.
    """

    folder: Path
    state: NightState
    runner: Runner
    commands: JobCommands
    watcher: Watcher
    holder: Holder
    running: dict[str, Running] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    differed: set[int] = field(default_factory=set)
    interrupted: dict[int, int] = field(default_factory=dict)

    def carry_out(self) -> None:
        """Run jobs until all have ended and no other can start."""
        while True:
            now_s = self.runner.now_s()
            self._look(now_s)
            self._settle(now_s)
            for job in startable(self.state, now_s):
                self._start(job)
            awaited = schedule.awaited(self.state)
            self.watcher.awaited(awaited)
            if not self.running and not awaited:
                return
            ended = self.runner.wait(LOOK_S if awaited else None)
            if ended:
                self._end(*ended)

    def _look(self, now_s: float) -> None:
        """Update the boards that the night could use and other users hold."""
        seen = {board: who for board in sorted(schedule.free(self.state)) if (who := self.holder(board))}
        self.state = schedule.looked_at(self.state, seen, now_s)

    def go_on(self, entry: Entry, one: Begun) -> None:
        """Resume an entry that had started when the night was interrupted, unless its run was finished."""
        folder, interrupted = self.commands.runs / one.run, one.interrupted + (one.began_s is not None)
        if differs_so_far(folder):
            self.differed.add(entry.number)
        self.interrupted[entry.number] = interrupted
        attempt = _finished(folder, one) or (_given_up(one, interrupted) if interrupted > INTERRUPTED else None)
        if attempt:
            self.state = attempted(self.state, BoardJob(entry.board, JobKind.ATTEMPT, entry), attempt)

    def _start(self, job: BoardJob) -> None:
        left_s, tried = self.state.left_s(job.entry), self.state.tried(job.entry)
        command, now_s = self.commands.of(job, left_s, tried), self.runner.now_s()
        log = self.folder / "logs" / (f"{job.entry.number:05}.log" if command.run else f"{job.board}.log")
        self.state = start(self.state, job)
        self.running[job.board] = Running(job, command, now_s)
        if command.run:
            self.runs[job.entry.number] = command.run
            self._record_start(job.entry, now_s)
        self.runner.start(job.board, command.words, log, command.limit_s)
        self.watcher.job_started(job, log, now_s)

    def _record_start(self, entry: Entry, began_s: float | None) -> None:
        run, interrupted = self.runs[entry.number], self.interrupted.get(entry.number, 0)
        record.keep_begun(self.folder, Begun(entry.number, self.state.tried(entry), began_s, run, interrupted))

    def _end(self, board: str, said: Said, took_s: float) -> None:
        running = self.running.pop(board)
        end = self._end_attempt if running.job.kind is JobKind.ATTEMPT else self._end_cure
        busy = result_parser.busy(said, board)
        if busy:
            self._stand_back(running, busy)
        self.watcher.job_ended(running.job, "" if busy else end(running, said, took_s))

    def _stand_back(self, running: Running, busy: str) -> None:
        """Wait for a board that another user took first."""
        job = running.job
        self.state = schedule.stood_back(self.state, job, busy, self.runner.now_s())
        if job.kind is JobKind.ATTEMPT:
            self.commands.forget(job.entry, running.command)
            self._record_start(job.entry, None)

    def _end_attempt(self, running: Running, said: Said, took_s: float) -> str:
        job, entry = running.job, running.job.entry
        ending = self._ending(running, said)
        attempt = Attempt(running.began_s, running.began_s + took_s, ending)
        self.state = attempted(self.state, job, attempt, anew=self._restarts(running, said, ending))
        if entry.number not in self.state.results:
            self._record_start(entry, None)
        return f"{ending}: {ending.reason}"

    def _ending(self, running: Running, said: Said) -> Ending:
        """Return the result of an attempt; a finished run keeps its verdict even if its command failed afterwards."""
        folder = self.commands.runs / running.command.run
        limit, seen = duration(running.job.entry.limit_s), differs_so_far(folder) is True
        ending = result_parser.attempt(said, limit, differs_so_far=seen, resumes=running.command.resumes)
        return result_parser.settled(ending, finished_run(folder))

    def _restarts(self, running: Running, said: Said, ending: Ending) -> bool:
        """Return whether a run without a difference could not be resumed because its sources have changed."""
        refused = running.command.resumes and said.code == EXIT_REQUEST and not ending.outcome.final
        return refused and differs_so_far(self.commands.runs / running.command.run) is False

    def _end_cure(self, running: Running, said: Said, took_s: float) -> str:
        job = running.job
        found = result_parser.check(said, job.board) if job.kind is JobKind.CHECK else result_parser.cycle(said)
        self.state = cured(self.state, job, found)
        now = self.state.state_of(job.board)
        if now.due is JobKind.ATTEMPT or now.quarantined:
            record.keep_health(self.folder, Health(job.board, running.began_s + took_s, now.quarantined))
        return f"quarantined: {now.quarantined}" if now.quarantined else found.sick or "healthy"

    def _settle(self, now_s: float) -> None:
        """Record new results; an interrupted run that showed a difference differs, even if a later attempt does not."""
        self.state = closed(self.state, now_s)
        for entry in self.state.order:
            if entry.number in self.state.results and entry.number not in self.kept:
                ended = result(self.state, entry, self._evidence(entry))
                ending = result_parser.with_seen(ended.ending, differed=entry.number in self.differed)
                ended = dataclasses.replace(ended, ending=ending)
                record.keep_result(self.folder, ended)
                self.kept.add(entry.number)
                self.watcher.concluded(entry, ended)

    def _evidence(self, entry: Entry) -> str:
        """Return the entry's run folder, if there is one."""
        run = self.runs.get(entry.number, "")
        return run if run and (self.commands.runs / run).is_dir() else ""


def resumed(
    night: Night, rules: Rules, commands: JobCommands, runner: Runner, watcher: Watcher, holder: Holder | None = None
) -> Campaign:
    """Return the campaign of a night: finished entries are kept, killed entries are resumed.

    A killed attempt does not count, because the board did not fail.  If its run was finished, its result is used.
    """
    order = fair(night.entries, commands.past.finished_s(runner.now_s()))
    ended = {number: one.ending for number, one in night.results.items()}
    attempts = {number: one.attempts for number, one in night.begun.items()}
    attempts |= {number: one.attempts for number, one in night.results.items()}
    state = NightState(rules, order, attempts, ended)
    campaign = Campaign(night.folder, state, runner, commands, watcher, holder or _no_holder)
    campaign.kept |= ended.keys()
    campaign.runs |= {number: one.run for number, one in night.begun.items()}
    for entry in order:
        if entry.number in night.begun:
            campaign.go_on(entry, night.begun[entry.number])
    return campaign


def _no_holder(_board: str) -> str:
    return ""


def _finished(folder: Path, one: Begun) -> Attempt | None:
    """Return the attempt that was running when its night stopped, if its run was finished."""
    run = finished_run(folder)
    if run is None or one.began_s is None:
        return None
    ended_s = max(one.began_s, (folder / "run.json").stat().st_mtime)  # the clock may have been set
    return Attempt(one.began_s, ended_s, result_parser.finished(run))


def _given_up(one: Begun, interrupted: int) -> Attempt:
    """Return the attempt that was killed, as the last one."""
    began_s, times = one.began_s or 0.0, f"{interrupted} interruptions of the night during this entry"
    return Attempt(began_s, began_s, Ending(Outcome.INCONCLUSIVE, f"{times}: it may crash this machine", "tool"))


def abandoned(night: Night, runs: Path) -> Iterator[Result]:
    """Yield the results of entries left by an abandoned night."""
    for one in night.begun.values():
        attempt = _finished(runs / one.run, one)
        if attempt:
            yield Result(one.number, attempt.ending, (*one.attempts, attempt), one.run)
        elif differs_so_far(runs / one.run):
            stopped = Ending(Outcome.INCONCLUSIVE, "its night was interrupted and not resumed", "tool")
            yield Result(one.number, result_parser.with_seen(stopped, differed=True), one.attempts, one.run)
