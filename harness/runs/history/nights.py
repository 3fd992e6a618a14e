"""Changes from one night to the next: a pure function of the nights' records.

An entry is the same in two nights if its key is: action, board, model, items, options.  A wrong result is new if the
last conclusive night had another result; inconclusive nights in between do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.core.outcome import Ending, Outcome
from harness.runs.history.night_record import Entry, Night, Result
from harness.runs.history.run_record import Run


class ChangeKind(StrEnum):
    """Kind of change of an entry or a board, the most serious first."""

    DIFFERS = "newly wrong"
    REGRESSED = "newly slower"
    QUARANTINED = "newly quarantined"
    INCONCLUSIVE = "newly inconclusive"
    NOT_RUN = "newly not run"
    REPAIRED = "repaired"
    BACK = "back"

    @property
    def good(self) -> bool:
        """Return whether the change is an improvement."""
        return self in {ChangeKind.REPAIRED, ChangeKind.BACK}


@dataclass(frozen=True)
class Change:
    """A change of an entry or, without an entry, of a board; `before` is the result in the night `since`."""

    kind: ChangeKind
    board: str
    entry: Entry | None
    now: str
    reason: str
    before: str
    since: str


@dataclass(frozen=True)
class StillWrong:
    """An entry whose last conclusive result was not as expected, since which night, and its result `now`."""

    entry: Entry
    told: str
    reason: str
    since: str
    now: str


@dataclass(frozen=True)
class _Past:
    """Result of an entry in a night."""

    night: str
    ending: Ending


class Past:
    """Results of former nights, added in order.

    For every key of an entry: the `last` ending, the last conclusive one (`told`) and the first `wrong` night.
    For every board: the night of its last check and the reason of its quarantine, empty if there was none.
    """

    def __init__(self) -> None:
        self.last: dict[str, _Past] = {}
        self.told: dict[str, _Past] = {}
        self.boards: dict[str, tuple[str, str]] = {}
        self.wrong: dict[str, tuple[Entry, str]] = {}

    def add(self, night: Night) -> None:
        """Add the next night."""
        for entry in night.entries:
            past = _Past(night.name, night.ending(entry))
            self.last[entry.key] = past
            if past.ending.outcome.final:
                self.told[entry.key] = past
                self._note(entry, past)
        self.boards |= {name: (night.name, health.quarantined) for name, health in night.boards.items()}

    def _note(self, entry: Entry, past: _Past) -> None:
        """Record the first night in which the entry is wrong, if it is."""
        if past.ending.outcome is entry.expect:
            self.wrong.pop(entry.key, None)
        else:
            self.wrong[entry.key] = entry, self.wrong.get(entry.key, (entry, past.night))[1]

    def still_wrong(self, night: Night) -> tuple[StillWrong, ...]:
        """Return the entries that were wrong before this night and did not become right in it."""
        tonight = {entry.key: entry for entry in night.entries}
        found = (self._still_wrong(tonight.get(key), entry, since, night) for key, (entry, since) in self.wrong.items())
        return tuple(one for one in found if one)

    def _still_wrong(self, entry: Entry | None, known: Entry, since: str, night: Night) -> StillWrong | None:
        told = self.told[known.key].ending
        if entry is None:
            return StillWrong(known, str(told), told.reason, since, "not in this night")
        now = night.ending(entry)
        if now.outcome.final:
            return None if now.outcome is entry.expect else StillWrong(entry, str(now), now.reason, since, "")
        return StillWrong(entry, str(told), told.reason, since, f"now {now}: {now.reason}")

    def unchecked(self, night: Night) -> dict[str, tuple[str, str]]:
        """Return the boards quarantined in an earlier night and not checked in this one, with night and reason."""
        return {name: last for name, last in self.boards.items() if last[1] and name not in night.boards}

    def changes(self, night: Night) -> tuple[Change, ...]:
        """Return the changes up to this night, the most serious first, then in the night's order."""
        found = [*_entries(night, self), *_boards(night, self)]
        return tuple(sorted(found, key=lambda change: list(ChangeKind).index(change.kind)))


def _entries(night: Night, past: Past) -> Iterator[Change]:
    quarantined = {name for name, health in night.boards.items() if health.quarantined}
    for entry in night.entries:
        if entry.number not in night.results and night.ended_s is None:
            continue  # it may still run
        now = night.ending(entry)
        if now.outcome is Outcome.NOT_RUN and entry.board in quarantined:
            continue  # reported by the line of the board
        last, told = past.last.get(entry.key), past.told.get(entry.key)
        if kind := _kind(entry, now, last, told):
            before = told if now.outcome.final and told else last
            yield Change(
                kind,
                entry.board,
                entry,
                str(now),
                now.reason,
                str(before.ending) if before else "",
                before.night if before else "",
            )


def _kind(entry: Entry, now: Ending, last: _Past | None, told: _Past | None) -> ChangeKind | None:
    """Return the kind of change; None for an unchanged result, and for an expected first result."""
    if not now.outcome.final:
        changed = last is None or last.ending.outcome is not now.outcome
        return _failed(now.outcome) if changed and now.outcome is not entry.expect else None
    well = now.outcome is entry.expect
    if told and told.ending.outcome is now.outcome:
        return ChangeKind.BACK if well and last and not last.ending.outcome.final else None
    if well:
        return None if told is None else ChangeKind.REPAIRED
    return ChangeKind.REGRESSED if now.outcome is Outcome.REGRESSED else ChangeKind.DIFFERS


def _failed(outcome: Outcome) -> ChangeKind:
    return ChangeKind.NOT_RUN if outcome is Outcome.NOT_RUN else ChangeKind.INCONCLUSIVE


def _boards(night: Night, past: Past) -> Iterator[Change]:
    """Yield the boards that were quarantined or returned to use since their previous check."""
    for name, health in night.boards.items():
        since, was = past.boards.get(name, ("", ""))
        if bool(health.quarantined) != bool(was):
            kind = ChangeKind.QUARANTINED if health.quarantined else ChangeKind.BACK
            now = "quarantined" if health.quarantined else "in use"
            yield Change(kind, name, None, now, health.quarantined, f"quarantined: {was}" if was else "in use", since)


def confirmed(night: Night, runs: Mapping[str, Run]) -> Night:
    """Return the night with only the results that its run folders, given by name, confirm.

    A good result without its evidence is inconclusive; a result whose evidence shows a difference is wrong.
    """
    results = {number: _confirmed(night, result, runs.get(result.run)) for number, result in night.results.items()}
    return replace(night, results=results)


def _confirmed(night: Night, result: Result, run: Run | None) -> Result:
    entry = next((one for one in night.entries if one.number == result.number), None)
    if entry is None or (result.ending.outcome.final and not result.ending.outcome.sound):
        return result
    if run and _is_of(run, entry) and (run.differs_so_far or _is_wrong(run)):
        told = f"the night reports {result.ending}, but runs/{run.name} differs: {run.reason}"
        return replace(result, ending=Ending(Outcome.DIFFERS, told))
    if not result.ending.outcome.sound or (run and _is_of(run, entry) and run.verdict == result.ending.outcome):
        return result
    told = f"the night reports {result.ending}, but {_lacking(result, run, entry)}"
    return replace(result, ending=Ending(Outcome.INCONCLUSIVE, told, "tool"))


def _is_of(run: Run, entry: Entry) -> bool:
    return not run.board or (run.board, run.action) == (entry.board, entry.action)


def _is_wrong(run: Run) -> bool:
    return run.verdict in {*Outcome} and Outcome(run.verdict).final and not Outcome(run.verdict).sound


def _lacking(result: Result, run: Run | None, entry: Entry) -> str:
    if run is None:
        return f"its evidence is missing: runs/{result.run}" if result.run else "it names no run"
    if not _is_of(run, entry):
        return f"runs/{run.name} is a {run.action} on {run.board}"
    return f"runs/{run.name} reports {run.ending}: {run.reason}"
