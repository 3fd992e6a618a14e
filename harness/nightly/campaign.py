"""Carries out a night: the schedule says what begins, commands do it, all that has ended is kept at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.core.errors import EXIT_REQUEST
from harness.core.outcome import Ending, Outcome
from harness.core.text import duration
from harness.nightly import record, result_parser, schedule
from harness.nightly.job_commands import Errand, Errands, finished_run
from harness.nightly.record import Attempt, Begun, Entry, Health, Night, Result
from harness.nightly.result_parser import Said
from harness.nightly.schedule import (
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
from harness.runs.folder import differs_so_far

INTERRUPTED = 3
"""Number of times an entry is resumed after its night was interrupted; the entry may crash this machine."""
LOOK_S = 2.0
"""Seconds between two looks at boards that other users have."""

Holder = Callable[[str], str]
"""Returns who has a board, as seen from outside the night; empty if it is free."""


class Runner(Protocol):
    """Starts commands and tells which has ended; `harness.nightly.process_pool` has the real one."""

    def now_s(self) -> float:
        """Return seconds since 1970."""

    def start(self, name: str, words: Sequence[str], log: Path, limit_s: float) -> None:
        """Start `harness WORDS`."""

    def wait(self, timeout_s: float | None = None) -> tuple[str, Said, float] | None:
        """Return the name of a command that has ended, what it said, and how many seconds it took; waits for it.

        None if none has after `timeout_s`.
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
    errand: Errand
    began_s: float


@dataclass
class Campaign:
    """One night being carried out; `differed` are entries whose chunks showed a difference when it was interrupted.

    `holder` looks at a board on which no job of the night is.
    """

    folder: Path
    state: NightState
    runner: Runner
    errands: Errands
    watcher: Watcher
    holder: Holder
    running: dict[str, Running] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    differed: set[int] = field(default_factory=set)
    interrupted: dict[int, int] = field(default_factory=dict)

    def carry_out(self) -> None:
        """Run jobs until nothing runs and nothing can start."""
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
        """Look which boards that the night could use are held by other users."""
        seen = {board: who for board in sorted(schedule.free(self.state)) if (who := self.holder(board))}
        self.state = schedule.looked_at(self.state, seen, now_s)

    def go_on(self, entry: Entry, one: Begun) -> None:
        """Resume an entry that had started when the night was interrupted, unless its run was finished."""
        folder, interrupted = self.errands.runs / one.run, one.interrupted + (one.began_s is not None)
        if differs_so_far(folder):
            self.differed.add(entry.number)
        self.interrupted[entry.number] = interrupted
        attempt = _finished(folder, one) or (_given_up(one, interrupted) if interrupted > INTERRUPTED else None)
        if attempt:
            self.state = attempted(self.state, BoardJob(entry.board, JobKind.ATTEMPT, entry), attempt)

    def _start(self, job: BoardJob) -> None:
        left_s, tried = self.state.left_s(job.entry), self.state.tried(job.entry)
        errand, now_s = self.errands.of(job, left_s, tried), self.runner.now_s()
        log = self.folder / "logs" / (f"{job.entry.number:05}.log" if errand.run else f"{job.board}.log")
        self.state = start(self.state, job)
        self.running[job.board] = Running(job, errand, now_s)
        if errand.run:
            self.runs[job.entry.number] = errand.run
            self._record_start(job.entry, now_s)
        self.runner.start(job.board, errand.words, log, errand.limit_s)
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
            self.errands.forget(job.entry, running.errand)
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
        folder = self.errands.runs / running.errand.run
        limit, seen = duration(running.job.entry.limit_s), differs_so_far(folder) is True
        ending = result_parser.attempt(said, limit, differs_so_far=seen, resumes=running.errand.resumes)
        return result_parser.settled(ending, finished_run(folder))

    def _restarts(self, running: Running, said: Said, ending: Ending) -> bool:
        """Return whether a run without a difference could not be resumed because its sources have changed."""
        refused = running.errand.resumes and said.code == EXIT_REQUEST and not ending.outcome.final
        return refused and differs_so_far(self.errands.runs / running.errand.run) is False

    def _end_cure(self, running: Running, said: Said, took_s: float) -> str:
        job = running.job
        found = result_parser.check(said, job.board) if job.kind is JobKind.CHECK else result_parser.cycle(said)
        self.state = cured(self.state, job, found)
        now = self.state.standing(job.board)
        if now.due is JobKind.ATTEMPT or now.quarantined:
            record.keep_health(self.folder, Health(job.board, running.began_s + took_s, now.quarantined))
        return f"quarantined: {now.quarantined}" if now.quarantined else found.sick or "well"

    def _settle(self, now_s: float) -> None:
        """Keep what has ended since; an interrupted run that showed a difference differs, whatever came of it later."""
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
        return run if run and (self.errands.runs / run).is_dir() else ""


def resumed(
    night: Night, rules: Rules, errands: Errands, runner: Runner, watcher: Watcher, holder: Holder | None = None
) -> Campaign:
    """Return the campaign of a night, begun or not: what has ended stays, what was killed is gone on with.

    The attempt that was killed does not count: the board did not fail.  Where its run was finished, it is taken over.
    """
    order = fair(night.entries, errands.past.finished_s(runner.now_s()))
    ended = {number: one.ending for number, one in night.results.items()}
    attempts = {number: one.attempts for number, one in night.begun.items()}
    attempts |= {number: one.attempts for number, one in night.results.items()}
    state = NightState(rules, order, attempts, ended)
    campaign = Campaign(night.folder, state, runner, errands, watcher, holder or _nobody)
    campaign.kept |= ended.keys()
    campaign.runs |= {number: one.run for number, one in night.begun.items()}
    for entry in order:
        if entry.number in night.begun:
            campaign.go_on(entry, night.begun[entry.number])
    return campaign


def _nobody(_board: str) -> str:
    return ""


def _finished(folder: Path, one: Begun) -> Attempt | None:
    """Return the attempt that was running when its night stopped, if its run came to an end."""
    run = finished_run(folder)
    if run is None or one.began_s is None:
        return None
    ended_s = max(one.began_s, (folder / "run.json").stat().st_mtime)  # the clock may have been set
    return Attempt(one.began_s, ended_s, result_parser.finished(run))


def _given_up(one: Begun, interrupted: int) -> Attempt:
    """Return the attempt that was killed, as the last one."""
    began_s, times = one.began_s or 0.0, f"{interrupted} times the night was interrupted while it ran"
    return Attempt(began_s, began_s, Ending(Outcome.INCONCLUSIVE, f"{times}: does it take this machine down?", "tool"))


def abandoned(night: Night, runs: Path) -> Iterator[Result]:
    """Yield the results of entries left by an abandoned night."""
    for one in night.begun.values():
        attempt = _finished(runs / one.run, one)
        if attempt:
            yield Result(one.number, attempt.ending, (*one.attempts, attempt), one.run)
        elif differs_so_far(runs / one.run):
            stopped = Ending(Outcome.INCONCLUSIVE, "its night was interrupted, and not gone on with", "tool")
            yield Result(one.number, result_parser.with_seen(stopped, differed=True), one.attempts, one.run)
