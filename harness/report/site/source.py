"""The input of the site: the records of the index and of the nights, read once."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from harness.core.errors import RequestError
from harness.report.site.labels import moment
from harness.runs.history import index
from harness.runs.history import night_record as record
from harness.runs.history.index import RunFilter
from harness.runs.history.night_record import Night
from harness.runs.history.nights import confirmed
from harness.runs.history.run_record import Run

MOST_TEXT = 4 << 20  # bytes of the mutation table
SLACK_S = 86_400.0  # between the clocks of a night and of its runs


@dataclass(frozen=True)
class OutOfUse:
    """A board in quarantine: why, since when in seconds since 1970, and by whose check."""

    board: str
    reason: str
    since_s: float
    by: str


@dataclass(frozen=True)
class QuarantineState:
    """The boards that are in quarantine, as their locks stated at `seen_s`, seconds since 1970."""

    boards: tuple[str, ...]
    out_of_use: tuple[OutOfUse, ...]
    seen_s: float = field(compare=False)


@dataclass(frozen=True)
class LabContent:
    """All that the site shows: `runs` the latest first, `nights` the latest last; folders of nights that are none.

    `folder` is that of the run folders.  `since` is the start of the first night on the page, empty if all are; earlier
    runs are left out.  `running` is true while a night runs.  `mutation` is the text of docs/results/mutation.md,
    empty if there is none.  `quarantine` is None where the locks of the boards cannot be read.
    """

    folder: Path
    runs: tuple[Run, ...]
    nights: tuple[Night, ...]
    unreadable: tuple[tuple[str, str], ...]
    since: str
    running: bool
    mutation: str
    quarantine: QuarantineState | None = None


def gather(folder: Path, nights: int, mutation: Path, quarantine: QuarantineState | None = None) -> LabContent:
    """Return the latest `nights` nights and the runs since; nothing for a missing folder."""
    every = record.folders(folder)
    found, unreadable = [], []
    for one in every[-nights:]:
        try:
            found.append(_night(one))
        except RequestError as error:
            unreadable.append((one.name, error.message))
    since = _stamp(found[0].began_s) if found and len(every) > nights else ""
    with index.opened(folder) as runs:
        records = runs.find(RunFilter(since=_stamp(max(0.0, found[0].began_s - SLACK_S)) if since else None))
    by_name = {run.name: run for run in records}
    shown = tuple(run for run in records if run.started >= since)
    nights_shown = tuple(confirmed(night, by_name) for night in found)
    held = _is_held(folder)
    return LabContent(folder, shown, nights_shown, tuple(unreadable), since, held, _text(mutation), quarantine)


def _stamp(time_s: float) -> str:
    return f"{moment(time_s):%Y-%m-%dT%H:%M:%SZ}"


def _is_held(folder: Path) -> bool:
    """Return whether a local process holds the lock of the nights; an attempt to lock it would block others."""
    with suppress(OSError):
        inode = (folder / record.NIGHTS / "lock").stat().st_ino
        return re.search(rf"FLOCK +ADVISORY +WRITE .*:{inode} ", Path("/proc/locks").read_text()) is not None
    return False


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        if path.stat().st_size <= MOST_TEXT:
            return path.read_text(encoding="utf-8")
    return ""


def _night(folder: Path) -> Night:
    """Return a finished night from a cache: it does not change."""
    with suppress(OSError):
        return _ended(folder, (folder / "ended.json").stat().st_mtime_ns)
    return record.read(folder)


@lru_cache(maxsize=400)
def _ended(folder: Path, _mtime_ns: int) -> Night:
    return record.read(folder)
