"""The scheduler of a night: a pure function of the events so far.

Each board, under all its names, runs one job at a time; at most `parallel` jobs run at once.  A board's health is
checked before its first entry and after every failure of the board or its connection.  A failed board is power-cycled
once and quarantined if the failure persists.  A measurement on this machine runs alone and first, while the machine is
quiet.  The night waits for a board that another user has; the wait is not a failure, does not count against an entry's
limit, and does not delay other boards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from harness.core.outcome import Ending, Outcome
from harness.core.text import duration
from harness.runs.history.night_record import Attempt, Entry, Result

T = TypeVar("T")

RETRIED = ("board", "network")
"""The components whose failure may be temporary.  A tool or a reference would fail again."""
LONGEST_WAIT_S = 3600.0
"""Time in seconds that a night without an end time waits for a board that another user has."""
REFUSED_S = 30.0
"""Time in seconds until the next attempt on a board that a command of the night could not lock."""


class JobKind(Enum):
    """The kind of a job."""

    CHECK = "check"
    CYCLE = "cycle"
    ATTEMPT = "attempt"


@dataclass(frozen=True)
class BoardJob:
    """One command that occupies a board; `entry` is its entry."""

    board: str
    kind: JobKind
    entry: Entry


@dataclass(frozen=True)
class Rules:
    """The limits of a night; no job starts after `until_s`, in seconds since 1970.

    `local` are the boards that are this machine.  `places` gives the lock name of each board; boards with one lock name
    are the same board.
    """

    parallel: int
    retries: int
    until_s: float | None
    until: str
    local: frozenset[str]
    places: Mapping[str, str] = field(default_factory=dict)

    def place(self, board: str) -> str:
        """Return the lock name of a board; a board without an entry is its own."""
        return self.places.get(board, board)


@dataclass(frozen=True)
class BoardState:
    """The state of a board: the due job (ATTEMPT if no other is due), the reason of a failure, and its quarantine."""

    due: JobKind = JobKind.CHECK
    sick: str = ""
    cycled: bool = False
    quarantined: str = ""


@dataclass(frozen=True)
class Cured:
    """The result of a check or a power cycle; `sick` is the reason of a failure, empty for a healthy board."""

    sick: str = ""
    hopeless: bool = False
    """True for an inconclusive check, and for a power cycle that failed or is not possible."""


@dataclass(frozen=True)
class NightState:
    """The state of a night: `order` is the fair order, `running` the job of every busy board.

    `taken` maps boards to their holders outside the night, `since_s` to the start of that use.  `refused` maps boards
    that the last command of the night could not lock to the holder and the time.
    """

    rules: Rules
    order: tuple[Entry, ...]
    attempts: Mapping[int, tuple[Attempt, ...]] = field(default_factory=dict)
    results: Mapping[int, Ending] = field(default_factory=dict)
    boards: Mapping[str, BoardState] = field(default_factory=dict)
    running: Mapping[str, BoardJob] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    since_s: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    def state_of(self, board: str) -> BoardState:
        """Return the state of a board; an unknown board must be checked first."""
        return self.boards.get(board, BoardState())

    def tried(self, entry: Entry) -> tuple[Attempt, ...]:
        """Return the ended attempts of an entry."""
        return self.attempts.get(entry.number, ())

    def left_s(self, entry: Entry) -> float:
        """Return the remaining time limit of an entry in seconds."""
        return entry.limit_s - sum(attempt.ended_s - attempt.began_s for attempt in self.tried(entry))

    def is_late(self, now_s: float) -> bool:
        """Return whether it is too late to start a job."""
        return self.rules.until_s is not None and now_s >= self.rules.until_s


def fair(entries: Sequence[Entry], finished_s: Mapping[str, float]) -> tuple[Entry, ...]:
    """Return the order of entries: the one finished longest ago first, then round robin over models.

    `finished_s` is the last time at which an entry of that key was tried in former nights.
    """
    turns: dict[tuple[str, str], int] = {}
    ranked = []
    for entry in entries:
        turn = turns.get((entry.board, entry.model), 0)
        turns[entry.board, entry.model] = turn + 1
        ranked.append(((finished_s.get(entry.key, 0.0), turn, entry.number), entry))
    return tuple(entry for _, entry in sorted(ranked, key=lambda pair: pair[0]))


def startable(state: NightState, now_s: float) -> tuple[BoardJob, ...]:
    """Return the jobs that start now."""
    jobs: list[BoardJob] = []
    for job in () if state.is_late(now_s) else _candidates(state):
        busy = [*state.running.values(), *jobs]
        alone = any(_needs_quiet(one.entry, state) for one in (*busy, job))
        if len(busy) >= state.rules.parallel or (busy and alone):
            break  # also if the next job must run alone: the running jobs end first
        jobs.append(job)
    return tuple(jobs)


def start(state: NightState, job: BoardJob) -> NightState:
    """Record that the job occupies its board."""
    return dataclasses.replace(state, running={**state.running, job.board: job})


def attempted(state: NightState, job: BoardJob, attempt: Attempt, *, anew: bool = False) -> NightState:
    """Record the end of an attempt; a board that may have failed is due for a check.

    `anew` is true if the attempt only found that its run must be started again.
    """
    attempts = (*state.tried(job.entry), attempt)
    state = _free(state, job, {})
    if attempt.ending.part in RETRIED:
        due = dataclasses.replace(state.state_of(job.board), due=JobKind.CHECK)
        state = dataclasses.replace(state, boards={**state.boards, job.board: due})
    state = dataclasses.replace(state, attempts={**state.attempts, job.entry.number: attempts})
    left_s = state.left_s(job.entry)
    ending = None if anew and left_s > 0 else conclusion(attempts, state.rules.retries, left_s)
    return _with_results(state, {job.entry.number: ending} if ending else {})


def stood_back(state: NightState, job: BoardJob, why: str, now_s: float) -> NightState:
    """Record that a job could not get its board from another user, as if it had not started."""
    running = {board: other for board, other in state.running.items() if board != job.board}
    return dataclasses.replace(state, running=running, refused={**state.refused, job.board: (why, now_s)})


def looked_at(state: NightState, seen: Mapping[str, str], now_s: float) -> NightState:
    """Record the current holders of the `free` boards.

    A refused board may be in use without a visible holder; its waiting time runs until a job gets it.
    """
    recent = {board: why for board, (why, at_s) in state.refused.items() if 0 <= now_s - at_s < REFUSED_S}
    taken = {**recent, **seen}
    looked = free(state) - state.refused.keys()
    since_s = {board: at_s for board, at_s in state.since_s.items() if board in taken or board not in looked}
    return dataclasses.replace(state, taken=taken, since_s=dict.fromkeys(taken, now_s) | since_s)


def free(state: NightState) -> frozenset[str]:
    """Return the boards with pending entries and without a job of the night, under any of their names."""
    busy = {state.rules.place(board) for board in state.running}
    return frozenset(entry.board for entry in _pending(state) if state.rules.place(entry.board) not in busy)


def awaited(state: NightState) -> dict[str, str]:
    """Return the boards for which an entry waits, with their holders outside the night."""
    boards = {entry.board for entry in _pending(state)}
    return {board: who for board, who in state.taken.items() if board in boards}


def cured(state: NightState, job: BoardJob, found: Cured) -> NightState:
    """Record the end of a check or of a power cycle."""
    return _free(state, job, {job.board: _next_state(state.state_of(job.board), job.kind, found)})


def _next_state(before: BoardState, kind: JobKind, found: Cured) -> BoardState:
    if found.hopeless:
        return dataclasses.replace(before, quarantined="; ".join(filter(None, (before.sick, found.sick))))
    if kind is JobKind.CYCLE:
        return dataclasses.replace(before, due=JobKind.CHECK)
    if not found.sick:
        return BoardState(JobKind.ATTEMPT)
    if before.cycled:
        return BoardState(quarantined=f"{found.sick}, also after a power cycle")
    return BoardState(JobKind.CYCLE, found.sick, cycled=True)


def conclusion(attempts: Sequence[Attempt], retries: int, left_s: float) -> Ending | None:
    """Return the final result of an entry with these attempts; None if it is tried again.

    A conclusive result is final.
    """
    for attempt in attempts:
        if attempt.ending.outcome.final:
            return attempt.ending
    last = attempts[-1].ending
    failures = sum(attempt.ending.part in RETRIED for attempt in attempts)
    again = last.part in RETRIED and failures <= retries and left_s > 0
    return None if again else last


def closed(state: NightState, now_s: float) -> NightState:
    """End the entries that cannot start: it is too late, or their board is quarantined or not available."""
    ended = {}
    for entry in _pending(state):
        why = _why_never(state, entry.board, now_s)
        if why:
            ended[entry.number] = _given_up(state.tried(entry), why)
    return _with_results(state, ended)


def _why_never(state: NightState, board: str, now_s: float) -> str:
    """Return the reason why no job can start on a board; empty if a job can start."""
    quarantined, taken = state.state_of(board).quarantined, state.taken.get(board, "")
    if quarantined:
        return f"board {board} is quarantined: {quarantined}"
    if state.is_late(now_s):
        return "; ".join(filter(None, (f"it is after {state.rules.until}", taken)))
    if taken and state.rules.until_s is None and now_s - state.since_s[board] >= LONGEST_WAIT_S:
        return f"{taken}; the night could not lock it for {duration(LONGEST_WAIT_S)}"
    return ""


def _given_up(attempts: Sequence[Attempt], why: str) -> Ending:
    """Return the result of an entry that is not started, or not retried."""
    if not attempts:
        return Ending(Outcome.NOT_RUN, why)
    last = attempts[-1].ending
    return dataclasses.replace(last, reason=f"{last.reason}; not retried: {why}")


def result(state: NightState, entry: Entry, run: str) -> Result:
    """Return the record of an ended entry; `run` is its folder under runs/, empty if there is none."""
    return Result(entry.number, state.results[entry.number], state.tried(entry), run)


def _pending(state: NightState) -> Iterator[Entry]:
    """Return the entries that are neither finished nor running, in order."""
    running = {job.entry.number for job in state.running.values() if job.kind is JobKind.ATTEMPT}
    return (entry for entry in state.order if entry.number not in state.results and entry.number not in running)


def _candidates(state: NightState) -> list[BoardJob]:
    """Return the next job of each idle board in order; second attempts come after all first ones."""
    first: dict[str, Entry] = {}
    usable = {board for board in free(state) - state.taken.keys() if not state.state_of(board).quarantined}
    for entry in sorted(_pending(state), key=lambda entry: _turn(entry, state)):
        if entry.board in usable:
            first.setdefault(state.rules.place(entry.board), entry)
    return [BoardJob(entry.board, state.state_of(entry.board).due, entry) for entry in first.values()]


def _turn(entry: Entry, state: NightState) -> tuple[int, bool]:
    """Return the sort key of an entry; a stable sort keeps the fair order."""
    return len(state.tried(entry)), not _needs_quiet(entry, state)


def _needs_quiet(entry: Entry, state: NightState) -> bool:
    """Return whether the entry measures this machine, which also runs the night.

    The check before it also runs alone, because the measurement would wait for jobs that start meanwhile.
    """
    return entry.action == "measure" and entry.board in state.rules.local


def _free(state: NightState, job: BoardJob, states: Mapping[str, BoardState]) -> NightState:
    """Release the board of a job under all its names."""
    place = state.rules.place(job.board)

    def others(known: Mapping[str, T]) -> dict[str, T]:
        return {board: value for board, value in known.items() if state.rules.place(board) != place}

    return dataclasses.replace(
        state,
        boards={**state.boards, **states},
        running=others(state.running),
        since_s=others(state.since_s),
        refused=others(state.refused),
    )


def _with_results(state: NightState, ended: Mapping[int, Ending]) -> NightState:
    return dataclasses.replace(state, results={**state.results, **ended}) if ended else state
