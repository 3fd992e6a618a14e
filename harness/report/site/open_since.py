"""Since which night an entry has had no verdict, and since which a board has been quarantined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.nightly.record import Entry, Night


@dataclass(frozen=True)
class OpenSince:
    """Name of the night since which a state lasts: of entries by their keys, of boards by their names.

    A night without an entry or a board, as it is of another file, changes nothing.
    """

    unsettled: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)

    def after(self, night: Night) -> OpenSince:
        """Return the states after one more night."""
        entries = {entry.key: is_unsettled(night, entry) for entry in night.entries if has_ended(night, entry)}
        boards = {name: bool(health.quarantined) for name, health in night.boards.items()}
        return OpenSince(
            _continued(self.unsettled, entries, night.name), _continued(self.quarantined, boards, night.name)
        )


def _continued(before: Mapping[str, str], tonight: Mapping[str, bool], night: str) -> dict[str, str]:
    kept = {name: since for name, since in before.items() if tonight.get(name, True)}
    return {name: night for name, lasts in tonight.items() if lasts} | kept


def has_ended(night: Night, entry: Entry) -> bool:
    """Return whether the entry will not change in this night any more."""
    return entry.number in night.results or night.ended_s is not None


def is_unsettled(night: Night, entry: Entry) -> bool:
    """Return whether the entry ended without a verdict on the program that was expected."""
    outcome = night.ending(entry).outcome
    return not outcome.final and outcome is not entry.expect
