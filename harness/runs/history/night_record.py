"""The record of a night, which allows it to be resumed after a crash and watched while it runs.

runs/nights/<time>/
    night.json            written first: the entries in the order of the file, and the file
    boards/<board>.json   the result of the board's health check, and its quarantine
    begun/00007.json      the attempts of an entry, and the start of a running one
    entries/00007.json    the result of an ended entry, which is not started again
    logs/00007.log        the output of its commands
    junit.xml             the results for continuous integration
    ended.json            written last; a night without it is unfinished

The evidence of an entry is an ordinary run folder: runs/<time>-<number>_<board>_<model>.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter

from harness.core.document import Document, write_json
from harness.core.errors import RequestError
from harness.core.outcome import Ending, Outcome
from harness.core.safe_io import read_document

NIGHTS = "nights"
LATEST_S = 1e11  # a time in the year 5138

Action = Literal["run", "prove", "measure", "case"]
Time = Annotated[float, Field(ge=0, lt=LATEST_S)]
"""A duration in seconds, or a time in seconds since 1970."""

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One cell of the matrix; `items` are comma-separated targets, empty for those of the profile.

    `options` are the other words of its command line, `limit_s` is the limit of all its attempts together.  A
    measurement is compared with the last `against` measurements of the same key.
    """

    number: int
    board: str
    model: str
    items: str
    action: Action
    expect: Outcome
    limit_s: Time
    options: tuple[str, ...] = ()
    against: int = 0

    @property
    def key(self) -> str:
        """Return the name of the entry, which is the same in every night."""
        return " ".join(filter(None, (self.action, self.board, self.model, self.items, *self.options)))


@dataclass(frozen=True)
class Attempt:
    """One start of an entry's command; times are seconds since 1970."""

    began_s: Time
    ended_s: Time
    ending: Ending


@dataclass(frozen=True)
class Result:
    """An ended entry; `run` is the name of its folder under runs/, empty if there is none."""

    number: int
    ending: Ending
    attempts: tuple[Attempt, ...] = ()
    run: str = ""

    @property
    def retries(self) -> int:
        """Return the attempts after the first; only failures of infrastructure are retried."""
        return max(0, len(self.attempts) - 1)


@dataclass(frozen=True)
class Begun:
    """A started entry; `began_s` is the start of its running attempt, None between two attempts.

    In the record of a killed night, the running attempt is the killed one; `interrupted` counts earlier ones.
    """

    number: int
    attempts: tuple[Attempt, ...] = ()
    began_s: Time | None = None
    run: str = ""
    interrupted: int = 0


@dataclass(frozen=True)
class Health:
    """Result of a board's health check; `quarantined` is the reason of its quarantine, empty if there is none."""

    board: str
    checked_s: Time
    quarantined: str = ""


class NightDocument(Document):
    """The content of `night.json`; `sha256` is that of the file with the entries."""

    began_s: Time
    file: str
    sha256: str
    entries: Sequence[Entry]


class EndedDocument(Document):
    """The content of `ended.json`."""

    ended_s: Time


@dataclass(frozen=True)
class Night:
    """The state of a night; `begun` are started entries without a result."""

    folder: Path
    began_s: float
    ended_s: float | None
    file: str
    sha256: str
    entries: tuple[Entry, ...]
    results: Mapping[int, Result]
    boards: Mapping[str, Health]
    begun: Mapping[int, Begun]

    @property
    def name(self) -> str:
        """Return the name of the folder, the start of the night in UTC."""
        return self.folder.name

    def ending(self, entry: Entry) -> Ending:
        """Return the result of an entry; for an unfinished entry not run, or the reason of its next attempt."""
        result, begun = self.results.get(entry.number), self.begun.get(entry.number)
        if result:
            return result.ending
        if self.ended_s is not None and begun and begun.attempts:
            return begun.attempts[-1].ending
        return Ending(Outcome.NOT_RUN, "not yet" if self.ended_s is None else "the night ended before its turn")

    def surprises(self) -> list[Entry]:
        """Return the entries that did not end as expected."""
        return [entry for entry in self.entries if self.ending(entry).outcome is not entry.expect]


def create(folder: Path, began_s: float, file: str, sha256: str, entries: tuple[Entry, ...]) -> Night:
    """Return a new night, recorded in `folder`; `sha256` is that of the file with the entries."""
    for part in ("boards", "begun", "entries", "logs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    write_json(folder / "night.json", NightDocument(began_s=began_s, file=file, sha256=sha256, entries=entries))
    return read(folder)


def keep_begun(folder: Path, begun: Begun) -> None:
    """Record the start of an attempt of an entry, or the end of an attempt that is not the last."""
    write_json(folder / "begun" / f"{begun.number:05}.json", asdict(begun))


def keep_result(folder: Path, result: Result) -> None:
    """Record the result of an entry."""
    write_json(folder / "entries" / f"{result.number:05}.json", asdict(result))


def keep_health(folder: Path, health: Health) -> None:
    """Record a board's health check."""
    write_json(folder / "boards" / f"{health.board}.json", asdict(health))


def end(folder: Path, ended_s: float) -> None:
    """Record the end of the night."""
    write_json(folder / "ended.json", EndedDocument(ended_s=ended_s))


def read(folder: Path) -> Night:
    """Read the night of a folder; RequestError if it is missing or of another version."""
    try:
        document = NightDocument.read(folder / "night.json")
        results = {one.number: one for one in _every(Result, folder / "entries")}
        begun = {one.number: one for one in _every(Begun, folder / "begun")}
        ended = folder / "ended.json"
        return Night(
            folder,
            document.began_s,
            EndedDocument.read(ended).ended_s if ended.exists() else None,
            document.file,
            document.sha256,
            tuple(document.entries),
            results,
            {health.board: health for health in _every(Health, folder / "boards")},
            {number: one for number, one in begun.items() if number not in results},
        )
    except (OSError, ValueError, RequestError) as error:
        raise RequestError(f"{folder}: not a night, or a night of another version: {error}") from error


def _every(kind: type[T], folder: Path) -> list[T]:
    """Return the contents of the files of a folder in the order of their names."""
    files, form = (json.dumps(read_document(path)) for path in sorted(folder.glob("*.json"))), TypeAdapter(kind)
    return [form.validate_json(file, strict=True, extra="forbid") for file in files]


def folders(runs: Path) -> list[Path]:
    """Return the folders of all nights, the latest last."""
    return sorted(path.parent for path in (runs / NIGHTS).glob("*/night.json"))
