"""What changed from one night to the next: a pure function of the nights' records.

An entry is the same in two nights if its key is: action, board, model, items, options.  A wrong result is new if the
last night that told something of the program told something else: a failed part in between makes nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from harness.nightly.record import Entry, Night
from harness.outcome import Ending, Outcome


class Kind(StrEnum):
    """What became of an entry or a board, the gravest first."""

    DIFFERS = "newly wrong"
    REGRESSED = "newly slower"
    QUARANTINED = "newly quarantined"
    INCONCLUSIVE = "newly inconclusive"
    NOT_RUN = "newly not run"
    REPAIRED = "repaired"
    BACK = "back"

    @property
    def good(self) -> bool:
        """Whether it is what a user hopes for."""
        return self in {Kind.REPAIRED, Kind.BACK}


@dataclass(frozen=True)
class Change:
    """One line of what changed: an entry or, where there is none, a board; `before` of the night of that name."""

    kind: Kind
    board: str
    entry: Entry | None
    now: str
    reason: str
    before: str
    since: str


@dataclass(frozen=True)
class _Past:
    """How an entry ended in the night of that name."""

    night: str
    ending: Ending


class Past:
    """What is known of the nights that were added, in their order.

    Of every entry's key the `last` ending, and the last one that `told` something of the program; of every board the
    night of its last check and why it was quarantined then, empty if it was not.
    """

    def __init__(self) -> None:
        self.last: dict[str, _Past] = {}
        self.told: dict[str, _Past] = {}
        self.boards: dict[str, tuple[str, str]] = {}

    def add(self, night: Night) -> None:
        """The next night."""
        for entry in night.entries:
            past = _Past(night.name, night.ending(entry))
            self.last[entry.key] = past
            if past.ending.outcome.final:
                self.told[entry.key] = past
        self.boards |= {name: (night.name, health.quarantined) for name, health in night.boards.items()}

    def changes(self, night: Night) -> tuple[Change, ...]:
        """What changed until that night; the gravest first, then in its order."""
        found = [*_entries(night, self), *_boards(night, self)]
        return tuple(sorted(found, key=lambda change: list(Kind).index(change.kind)))


def _entries(night: Night, past: Past) -> Iterator[Change]:
    quarantined = {name for name, health in night.boards.items() if health.quarantined}
    for entry in night.entries:
        if entry.number not in night.results and night.ended_s is None:
            continue  # its time may come
        now = night.ending(entry)
        if now.outcome is Outcome.NOT_RUN and entry.board in quarantined:
            continue  # the board's own line tells it
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


def _kind(entry: Entry, now: Ending, last: _Past | None, told: _Past | None) -> Kind | None:
    """None for what is as it was, and for what is as it is expected where nothing is known of before."""
    if not now.outcome.final:
        changed = last is None or last.ending.outcome is not now.outcome
        return _failed(now.outcome) if changed and now.outcome is not entry.expect else None
    well = now.outcome is entry.expect
    if told and told.ending.outcome is now.outcome:
        return Kind.BACK if well and last and not last.ending.outcome.final else None
    if well:
        return None if told is None else Kind.REPAIRED
    return Kind.REGRESSED if now.outcome is Outcome.REGRESSED else Kind.DIFFERS


def _failed(outcome: Outcome) -> Kind:
    return Kind.NOT_RUN if outcome is Outcome.NOT_RUN else Kind.INCONCLUSIVE


def _boards(night: Night, past: Past) -> Iterator[Change]:
    """Out of use, and back in it, by the last check before."""
    for name, health in night.boards.items():
        since, was = past.boards.get(name, ("", ""))
        if bool(health.quarantined) != bool(was):
            kind = Kind.QUARANTINED if health.quarantined else Kind.BACK
            now = "quarantined" if health.quarantined else "in use"
            yield Change(kind, name, None, now, health.quarantined, f"quarantined: {was}" if was else "in use", since)
