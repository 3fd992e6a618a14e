"""Results of former nights for the next one: order of entries, comparable runs, unfinished nights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import RequestError
from harness.core.outcome import Outcome
from harness.runs.history import night_record as record
from harness.runs.history.night_record import Entry, Night, Result

NIGHTS = 60
"""Number of former nights that are read, the latest."""
KEPT_S = 24 * 3600.0
"""Age in seconds above which a stopped night is not resumed, because boards and sources may have changed."""


@dataclass(frozen=True)
class Past:
    """The former nights, the latest last."""

    nights: Sequence[Night]

    @classmethod
    def read(cls, runs: Path) -> Past:
        """Return the latest nights of that folder, without unreadable folders and other versions."""
        return cls(tuple(_readable(record.folders(runs)[-NIGHTS:])))

    def finished_s(self, now_s: float) -> dict[str, float]:
        """Return the last time at which each key was tried; ignore times after `now_s`, from a wrong clock."""
        found: dict[str, float] = {}
        for entry, result in self._results():
            if result.attempts and result.attempts[-1].ended_s <= now_s:
                found[entry.key] = max(found.get(entry.key, 0.0), result.attempts[-1].ended_s)
        return found

    def measured(self, key: str) -> list[str]:
        """Return the runs of that key that ended as measured, the latest first."""
        ended = [result.run for entry, result in self._results() if entry.key == key and _is_measured(result)]
        return ended[::-1]

    def unfinished(self) -> list[Night]:
        """Return nights that have not ended."""
        return [night for night in self.nights if night.ended_s is None]

    def _results(self) -> Iterator[tuple[Entry, Result]]:
        for night in self.nights:
            for entry in night.entries:
                if entry.number in night.results:
                    yield entry, night.results[entry.number]


def _readable(folders: Sequence[Path]) -> Iterator[Night]:
    for folder in folders:
        with suppress(RequestError):
            yield record.read(folder)


def _is_measured(result: Result) -> bool:
    return result.ending.outcome is Outcome.MEASURED and bool(result.run)
