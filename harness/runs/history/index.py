"""The index runs/index.sqlite: a record of every run folder, searchable by board, model, verdict and day.

The index is a cache and may be deleted at any time.  If it is damaged, of another version or read-only, queries are
slower, but their results are the same.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from harness.runs.history.run_record import Part, Run, State, stamp

FILE = "index.sqlite"
VERSION = 3  # increase it when the content of a record changes
WAIT_S = 60.0  # another process may be reading thousands of new folders

_COLUMNS = tuple(one.name for one in fields(Run) if one.name != "parts")
_PART = tuple(one.name for one in fields(Part))
_SCHEMA = f"""
CREATE TABLE runs (stamp TEXT, {", ".join(_COLUMNS)}, PRIMARY KEY (name));
CREATE INDEX runs_started ON runs (started, name);
CREATE INDEX runs_board ON runs (board, model, started);
CREATE TABLE parts (run TEXT, position INTEGER, {", ".join(_PART)}, PRIMARY KEY (run, position)) WITHOUT ROWID;
"""
_CURRENT = zlib.crc32(f"{VERSION}{_SCHEMA}".encode()) >> 1  # SQLite's user_version is a signed number of 32 bits
_FLAGS = ("differs_so_far", "met")

T = TypeVar("T")


@dataclass(frozen=True)
class RunFilter:
    """A filter of runs that match all given values and were started at `since` (as in `run.json`) or later.

    The verdict `differs` also matches an unfinished run that differs so far.
    """

    board: str | None = None
    model: str | None = None
    verdict: str | None = None
    since: str | None = None


@dataclass(frozen=True)
class Refreshed:
    """The numbers of records that were read again and of records that were removed with their folders."""

    read: int
    gone: int


class Index:
    """The records of the run folders in `folder`; `opened` creates it."""

    def __init__(self, folder: Path, database: sqlite3.Connection) -> None:
        self._folder = folder
        self._database = database

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def refresh(self) -> Refreshed:
        """Read new and changed folders, and remove records without a folder."""
        found = dict(_stamps(self._folder))
        if found == self._known():
            return Refreshed(0, 0)
        from harness.runs.history import run as runs  # imports all document models, which is slow

        with _transaction(self._database):  # before reading, because another process may do the same
            known = self._known()
            stale = [name for name, changed in found.items() if known.get(name) != changed]
            gone = [name for name in known if name not in found]
            self._drop([*gone, *stale])
            self._keep((found[name], runs.read(self._folder / name)) for name in stale)
        return Refreshed(len(stale), len(gone))

    def _known(self) -> dict[str, str]:
        return dict(self._database.execute("SELECT name, stamp FROM runs"))

    def _drop(self, names: Sequence[str]) -> None:
        keys = [(name,) for name in names]
        self._database.executemany("DELETE FROM runs WHERE name = ?", keys)
        self._database.executemany("DELETE FROM parts WHERE run = ?", keys)

    def _keep(self, records: Iterable[tuple[str, Run]]) -> None:
        marks = ", ".join("?" * (len(_COLUMNS) + 1))
        part_marks = ", ".join("?" * (len(_PART) + 2))
        for changed, one in records:
            row = (changed, *(getattr(one, name) for name in _COLUMNS))
            self._database.execute(f"INSERT OR REPLACE INTO runs VALUES ({marks})", row)  # noqa: S608 - question marks
            parts = [(one.name, position, *astuple(part)) for position, part in enumerate(one.parts)]
            self._database.executemany(f"INSERT OR REPLACE INTO parts VALUES ({part_marks})", parts)  # noqa: S608 - as above

    def find(self, run_filter: RunFilter, limit: int | None = None) -> list[Run]:
        """Return the latest records that match, the latest first."""
        where, values = _where(run_filter)
        chosen = f"FROM runs {where} ORDER BY started DESC, name DESC LIMIT ?"
        limited = (*values, -1 if limit is None else limit)
        return self._sound(lambda: self._found(chosen, limited))

    def count(self) -> int:
        """Return the number of records."""
        return self._sound(lambda: int(self._database.execute("SELECT count(*) FROM runs").fetchone()[0]))

    def _sound(self, ask: Callable[[], T]) -> T:
        """Return the result of a query; if the file proves to be damaged, read the folders again.

        A file that another process has locked is not replaced.
        """
        try:
            return ask()
        except sqlite3.DatabaseError as error:
            if not _is_busy(error):
                _forget(self._folder / FILE)
            self._database.close()
            self._database = _in_memory(self._folder)
            return ask()

    def _found(self, chosen: str, values: Sequence[Any]) -> list[Run]:
        parts = self._parts(f"SELECT name {chosen}", values)
        rows = self._database.execute(f"SELECT {', '.join(_COLUMNS)} {chosen}", values)
        return [_run(row, parts.get(row[0], ())) for row in rows]

    def _parts(self, names: str, values: Sequence[Any]) -> dict[str, tuple[Part, ...]]:
        columns = ", ".join(_PART)
        query = f"SELECT run, {columns} FROM parts WHERE run IN ({names}) ORDER BY run, position"  # noqa: S608 - constant names
        found: dict[str, list[Part]] = {}
        for name, *numbers in self._database.execute(query, values):
            found.setdefault(name, []).append(Part(*numbers))
        return {name: tuple(parts) for name, parts in found.items()}


def _where(run_filter: RunFilter) -> tuple[str, list[str]]:
    conditions = {
        "board = ?": run_filter.board,
        "model = ?": run_filter.model,
        "(verdict = ? OR (differs_so_far AND 'differs' = ?))": run_filter.verdict,
        "started >= ?": run_filter.since,
    }
    given = {condition: value for condition, value in conditions.items() if value is not None}
    values = [value for condition, value in given.items() for _ in range(condition.count("?"))]
    return f"WHERE {' AND '.join(given)}" if given else "", values


def _run(row: Sequence[Any], parts: tuple[Part, ...]) -> Run:
    values = dict(zip(_COLUMNS, row, strict=True))
    flags = {name: bool(values[name]) for name in _FLAGS}
    return Run(**values | flags | {"state": State(values["state"]), "parts": parts})


def _stamps(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and stamp of every run folder."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - only names, of twenty thousand folders
    except OSError:
        return
    for name in names:
        found = stamp(folder / name)
        if found and _is_text(name):
            yield name, found


def _is_text(name: str) -> bool:
    """Return whether a database can store the name; this program gives only UTF-8 names."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def opened(folder: Path, *, rebuild: bool = False) -> Iterator[Index]:
    """Provide the updated index of the run folders in `folder`; `rebuild` reads all of them again."""
    if rebuild:
        _forget(folder / FILE)
    kept = rebuild and (folder / FILE).exists()  # a read-only folder
    with closing(Index(folder, _nothing(folder) if kept else _open(folder))) as index:
        yield index


def _open(folder: Path) -> sqlite3.Connection:
    """Return the database of the file, or a copy in memory if the file cannot be used."""
    try:
        return _current(sqlite3.connect(folder / FILE, timeout=WAIT_S), folder)
    except sqlite3.OperationalError:  # no permission to write, or a full disk
        return _in_memory(folder)
    except sqlite3.DatabaseError:  # damaged
        _forget(folder / FILE)
        return _in_memory(folder)


def _in_memory(folder: Path) -> sqlite3.Connection:
    """Load the index into memory, from the file if it is readable, otherwise from the folders."""
    database, path = sqlite3.connect(":memory:"), folder / FILE
    with suppress(sqlite3.Error, OSError), closing(_as_it_is(path)) as kept:
        before = path.stat().st_mtime_ns
        kept.backup(database)
        if path.stat().st_mtime_ns == before and not _journal(path).exists():  # not changed by another process
            return _current(database, folder)
    database.close()
    return _nothing(folder)


def _nothing(folder: Path) -> sqlite3.Connection:
    return _current(sqlite3.connect(":memory:"), folder)


def _as_it_is(path: Path) -> sqlite3.Connection:
    """Return the file opened read-only, without files of SQLite next to it."""
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)


def _current(database: sqlite3.Connection, folder: Path) -> sqlite3.Connection:
    """Open and update the database, and create it again for another version; raise sqlite3.Error if that fails."""
    try:
        database.isolation_level = None
        if not _is_current(database):
            _make(database)
        Index(folder, database).refresh()
    except BaseException:
        database.close()
        raise
    return database


def _is_current(database: sqlite3.Connection) -> bool:
    return bool(database.execute("PRAGMA user_version").fetchone()[0] == _CURRENT)


def _make(database: sqlite3.Connection) -> None:
    """Create empty tables unless another process has done so."""
    with _transaction(database):
        if _is_current(database):
            return
        old = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in old:
            database.execute(f'DROP TABLE "{name}"')
        for statement in filter(str.strip, _SCHEMA.split(";")):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {_CURRENT}")


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit all changes or none, isolated from other processes."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _is_busy(error: sqlite3.DatabaseError) -> bool:
    """Return whether another process has locked the intact file for WAIT_S seconds."""
    return getattr(error, "sqlite_errorcode", None) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _forget(path: Path) -> None:
    for one in (path, _journal(path)):
        with suppress(OSError):
            one.unlink()


def _journal(path: Path) -> Path:
    """Return the path of SQLite's rollback journal."""
    return path.with_name(f"{path.name}-journal")
