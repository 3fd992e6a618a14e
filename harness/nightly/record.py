"""Record of a night, so that it can be resumed after a crash and observed while it runs.

runs/nights/<time>/
    night.json            written first: the entries in the order of the file, and where they come from
    boards/<board>.json   what the board's health check said, and whether it was quarantined
    begun/00007.json      the attempts of an entry until now, and since when one is running
    entries/00007.json    one ended entry, written at its end: it is not begun again
    logs/00007.log        what its commands said meanwhile
    junit.xml             the same for continuous integration
    ended.json            written last: a night without it has not ended

The evidence of an entry is a run folder like any other: runs/<time>-<number>_<board>_<model>.
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
LATEST_S = 1e11  # of the year 5138

Action = Literal["run", "prove", "measure"]
Time = Annotated[float, Field(ge=0, lt=LATEST_S)]
"""Seconds, or seconds since 1970."""

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One cell of the matrix; `items` are targets with commas between them, empty for those of the profile.

    `options` are the other words of its command line, `limit_s` is for all its attempts together.  A measurement is
    compared with the `against` last ones of the same key.
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
        """Return its name, the same in every night."""
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
        """Return attempts after the first: only those of failed infrastructure are tried again."""
        return max(0, len(self.attempts) - 1)


@dataclass(frozen=True)
class Begun:
    """An entry that was begun; `began_s` is when its running attempt was, None between two attempts.

    Of a night that was killed, the attempt that seems to run is the one that was killed; `interrupted` counts those
    before it.
    """

    number: int
    attempts: tuple[Attempt, ...] = ()
    began_s: Time | None = None
    run: str = ""
    interrupted: int = 0


@dataclass(frozen=True)
class Health:
    """Result of a board's health check; `quarantined` is why the board is out of use, empty if it is not."""

    board: str
    checked_s: Time
    quarantined: str = ""


class NightDocument(Document):
    """The content of `night.json`; `sha256` is that of the file that the entries come from."""

    began_s: Time
    file: str
    sha256: str
    entries: Sequence[Entry]


class EndedDocument(Document):
    """The content of `ended.json`."""

    ended_s: Time


@dataclass(frozen=True)
class Night:
    """State of a night, ended or not; `begun` are entries without a result."""

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
        """Return the folder's name: when it began, in UTC."""
        return self.folder.name

    def ending(self, entry: Entry) -> Ending:
        """Return the result of an entry; of one that has not ended: not run, or why it was to be tried again."""
        result, begun = self.results.get(entry.number), self.begun.get(entry.number)
        if result:
            return result.ending
        if self.ended_s is not None and begun and begun.attempts:
            return begun.attempts[-1].ending
        return Ending(Outcome.NOT_RUN, "not yet" if self.ended_s is None else "the night ended before it")

    def surprises(self) -> list[Entry]:
        """Return the entries that did not end as expected."""
        return [entry for entry in self.entries if self.ending(entry).outcome is not entry.expect]


def create(folder: Path, began_s: float, file: str, sha256: str, entries: tuple[Entry, ...]) -> Night:
    """Return a new night, kept in `folder`; `sha256` is that of the file that the entries come from."""
    for part in ("boards", "begun", "entries", "logs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    write_json(folder / "night.json", NightDocument(began_s=began_s, file=file, sha256=sha256, entries=entries))
    return read(folder)


def keep_begun(folder: Path, begun: Begun) -> None:
    """Record that an attempt of an entry starts, or has ended without being the last."""
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
    """Read the night of a folder; RequestError if there is none, or if another version wrote it."""
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
        raise RequestError(f"{folder}: this is no night, or one of another version: {error}") from error


def _every(kind: type[T], folder: Path) -> list[T]:
    """Return what the files of a folder contain, in the order of their names."""
    files, form = (json.dumps(read_document(path)) for path in sorted(folder.glob("*.json"))), TypeAdapter(kind)
    return [form.validate_json(file, strict=True, extra="forbid") for file in files]


def folders(runs: Path) -> list[Path]:
    """Return the folders of all nights, the latest last."""
    return sorted(path.parent for path in (runs / NIGHTS).glob("*/night.json"))
