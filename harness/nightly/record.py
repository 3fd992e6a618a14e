"""What is kept of a night, so that it goes on after a crash and can be looked at while it runs.

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

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from harness.core.document import write_json
from harness.core.errors import RequestError
from harness.core.outcome import Ending, Outcome
from harness.core.safe_io import read_document

NIGHTS = "nights"
LATEST_S = 1e11  # of the year 5138

Action = Literal["run", "prove", "measure"]


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
    limit_s: float
    options: tuple[str, ...] = ()
    against: int = 0

    @property
    def key(self) -> str:
        """Its name, the same in every night."""
        return " ".join(filter(None, (self.action, self.board, self.model, self.items, *self.options)))


@dataclass(frozen=True)
class Attempt:
    """One start of an entry's command; times are seconds since 1970."""

    began_s: float
    ended_s: float
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
        """Attempts after the first: only those of failed infrastructure are tried again."""
        return max(0, len(self.attempts) - 1)


@dataclass(frozen=True)
class Begun:
    """An entry that was begun; `began_s` is when its running attempt was, None between two attempts.

    Of a night that was killed, the attempt that seems to run is the one that was killed; `interrupted` counts those
    before it.
    """

    number: int
    attempts: tuple[Attempt, ...] = ()
    began_s: float | None = None
    run: str = ""
    interrupted: int = 0


@dataclass(frozen=True)
class Health:
    """What a board's health check said; `quarantined` is why the board is out of use, empty if it is not."""

    board: str
    checked_s: float
    quarantined: str = ""


@dataclass(frozen=True)
class Night:
    """All that is known of a night, whether it has ended or not; `begun` are entries without a result."""

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
        """The folder's name: when it began, in UTC."""
        return self.folder.name

    def ending(self, entry: Entry) -> Ending:
        """Of an entry that has not ended: not run, or not yet; of one that was to be tried again, why."""
        result, begun = self.results.get(entry.number), self.begun.get(entry.number)
        if result:
            return result.ending
        if self.ended_s is not None and begun and begun.attempts:
            return begun.attempts[-1].ending
        return Ending(Outcome.NOT_RUN, "not yet" if self.ended_s is None else "the night ended before it")

    def surprises(self) -> list[Entry]:
        """The entries that did not end as expected."""
        return [entry for entry in self.entries if self.ending(entry).outcome is not entry.expect]


def create(folder: Path, began_s: float, file: str, sha256: str, entries: tuple[Entry, ...]) -> Night:
    """A new night, kept in `folder`; `sha256` is that of the file that the entries come from."""
    for part in ("boards", "begun", "entries", "logs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    document = {"began_s": began_s, "file": file, "sha256": sha256, "entries": [asdict(entry) for entry in entries]}
    write_json(folder / "night.json", document)
    return read(folder)


def keep_begun(folder: Path, begun: Begun) -> None:
    """An attempt of an entry begins, or has ended without being the last."""
    write_json(folder / "begun" / f"{begun.number:05}.json", asdict(begun))


def keep_result(folder: Path, result: Result) -> None:
    """An entry has ended."""
    write_json(folder / "entries" / f"{result.number:05}.json", asdict(result))


def keep_health(folder: Path, health: Health) -> None:
    """A board was checked."""
    write_json(folder / "boards" / f"{health.board}.json", asdict(health))


def end(folder: Path, ended_s: float) -> None:
    """The night has ended."""
    write_json(folder / "ended.json", {"ended_s": ended_s})


def read(folder: Path) -> Night:
    """The night of that folder as it is now; RequestError if it is none, or was written by another version."""
    try:
        document = read_document(folder / "night.json")
        results = {one.number: one for one in (_result(read_document(path)) for path in _numbered(folder / "entries"))}
        begun = {one.number: one for one in (_begun(read_document(path)) for path in _numbered(folder / "begun"))}
        healths = [_health(read_document(path)) for path in sorted((folder / "boards").glob("*.json"))]
        ended = folder / "ended.json"
        return Night(
            folder,
            _time(document["began_s"]),
            _time(read_document(ended)["ended_s"]) if ended.exists() else None,
            _text(document["file"]),
            _text(document["sha256"]),
            tuple(_entry(entry) for entry in document["entries"]),
            results,
            {health.board: health for health in healths},
            {number: one for number, one in begun.items() if number not in results},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{folder}: this is no night, or one of another version: {error}") from error


def folders(runs: Path) -> list[Path]:
    """The folders of all nights, the latest last."""
    return sorted(path.parent for path in (runs / NIGHTS).glob("*/night.json"))


def _entry(document: dict[str, Any]) -> Entry:
    texts = {key: _text(document[key]) for key in ("board", "model", "items", "action")}
    options = tuple(_text(option) for option in document["options"])
    values = {"expect": Outcome(document["expect"]), "limit_s": _time(document["limit_s"]), "options": options}
    return Entry(**document | texts | values)


def _health(document: dict[str, Any]) -> Health:
    texts = {key: _text(document[key]) for key in ("board", "quarantined")}
    return Health(**document | texts | {"checked_s": _time(document["checked_s"])})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _time(value: Any) -> float:
    """Seconds; ValueError for what cannot be calculated with, or has no date."""
    if not isinstance(value, int | float) or not 0 <= value < LATEST_S:
        raise ValueError(f"{value!r} is no time")
    return value


def _numbered(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _result(document: dict[str, Any]) -> Result:
    values = {"ending": _ending(document["ending"]), "attempts": _attempts(document), "run": _text(document["run"])}
    return Result(**document | values)


def _begun(document: dict[str, Any]) -> Begun:
    began_s = document["began_s"]
    values = {"began_s": None if began_s is None else _time(began_s), "run": _text(document["run"])}
    return Begun(**document | values | {"attempts": _attempts(document)})


def _attempts(document: dict[str, Any]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(_time(one["began_s"]), _time(one["ended_s"]), _ending(one["ending"])) for one in document["attempts"]
    )


def _ending(document: dict[str, Any]) -> Ending:
    return Ending(Outcome(document["outcome"]), _text(document["reason"]), _text(document["part"]))
