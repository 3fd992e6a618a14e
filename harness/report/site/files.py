"""Write changed pages, copy reports of runs, remove files that are out of date.

The file site.json marks a folder of the site; other folders are not changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.boards.workspace import write_whole
from harness.core.errors import RequestError
from harness.core.locking import exclusive
from harness.report.site.labels import file_name, link
from harness.runs.history.run_record import Run, State

MARK = "site.json"
LOCK = ".lock"
COPIED = ("report.html", "junit.xml", "times.csv")
RUNS = "runs"
LARGEST = 64 << 20  # bytes of a report that is copied
HEAD = 600  # bytes at the start of a page that contain the hash of its input
PAGES = ("*.html", "nights/*.html", "boards/*.html")


@dataclass(frozen=True)
class Page:
    """A page of the site: where it is, its template, and the values that the template shows."""

    path: str
    template: str
    view: Mapping[str, Any]


@dataclass(frozen=True)
class Written:
    """Counts of pages written, pages unchanged, reports copied, files removed."""

    pages: int
    kept: int
    reports: int
    removed: int


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Lock the site's folder for one writer.

    RequestError for a folder with other files, or without permission to write.
    """
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"cannot write the site to {folder}: it is not a folder", "name a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = {one.name for one in folder.iterdir()} - {LOCK}
        if others and MARK not in others:
            raise RequestError(f"{folder} is not empty and not a site of harness", "name a new folder")
        with exclusive(folder / LOCK):
            _write(folder / MARK, '{"made_by": "harness report --site"}\n')
            yield
    except OSError as error:
        raise RequestError(
            f"cannot write the site to {folder}: {error}",
            "fix its permissions or free disk space, or name another folder",
        ) from error


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    write_whole(path, text.encode("utf-8", "replace"))


def write_pages(
    folder: Path, pages: Iterable[Page], render: Callable[[Page, str], str], version: str
) -> tuple[int, int]:
    """Write the pages whose value or template has changed; return the numbers of written and unchanged pages.

    A page contains the hash of its input, the second argument of `render`.
    """
    written = kept = 0
    for page in pages:
        made_of = hashlib.sha256(f"{version}{page.template}{page.view!r}".encode("utf-8", "replace")).hexdigest()
        if _made_of(folder / page.path) == made_of:
            kept += 1
            continue
        _write(folder / page.path, render(page, made_of))
        written += 1
    return written, kept


def _made_of(path: Path) -> str:
    """Return the hash of the input of the existing page; empty if there is no page."""
    try:
        with path.open("rb") as file:
            match = re.search(rb'name="made-of" content="([0-9a-f]{64})"', file.read(HEAD))
    except OSError:
        return ""
    return match[1].decode() if match else ""


def copy_reports(source: Path, folder: Path, runs: Iterable[Run]) -> tuple[dict[str, dict[str, str]], int]:
    """Copy the reports of runs; return the addresses of each run's files by name, and the number of copied files."""
    (folder / RUNS).mkdir(exist_ok=True)
    names = [run.name for run in runs if run.state is State.FINISHED]
    done = [_copy_run(source / name, folder / RUNS / file_name(name)) for name in names]
    found = {
        name: {file: link(RUNS, file_name(name), file) for file in files}
        for name, files in zip(names, done, strict=True)
    }
    return found, sum(anew for files in done for anew in files.values())


def _copy_run(source: Path, target: Path) -> dict[str, bool]:
    """Copy the reports of a run; return the names of those that exist, and whether they had to be copied."""
    found = {}
    for file in COPIED:
        with suppress(FileNotFoundError, _Unfit):
            found[file] = _copy(source / file, target / file)
    return found


class _Unfit(Exception):
    """Error for a link, a pipe, or a file larger than LARGEST."""


def _copy(source: Path, target: Path) -> bool:
    """Copy a file unless the target has its size and time and the source is unchanged; return whether copied."""
    try:
        reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _Unfit from error
    try:
        given = os.fstat(reader)
        if not stat.S_ISREG(given.st_mode) or given.st_size > LARGEST:
            raise _Unfit
        if _is_as(target, given):
            return False
        _write_as(target, os.read(reader, given.st_size), given)
    finally:
        os.close(reader)
    return True


def _is_as(target: Path, given: os.stat_result) -> bool:
    try:
        there = target.lstat()
    except FileNotFoundError:
        return False
    same = (there.st_size, there.st_mtime_ns) == (given.st_size, given.st_mtime_ns)
    return (
        same and given.st_ctime_ns <= there.st_ctime_ns
    )  # an editor can set back the time of a file, but not this one


def _write_as(target: Path, content: bytes, given: os.stat_result) -> None:
    """Write a file atomically and with the time of its source, which identifies it."""
    target.parent.mkdir(exist_ok=True)
    temporary = target.with_suffix(".part")
    temporary.write_bytes(content)
    os.utime(temporary, ns=(given.st_atime_ns, given.st_mtime_ns))
    temporary.replace(target)


def remove_vanished(folder: Path, pages: Iterable[str], reports: Mapping[str, Mapping[str, str]]) -> int:
    """Remove out-of-date pages and reports; keep files of others."""
    wanted = set(pages)
    there = [one for pattern in PAGES for one in folder.glob(pattern)]
    gone = [one for one in there if one.relative_to(folder).as_posix() not in wanted]
    names = {file_name(run): files for run, files in reports.items()}
    for one in (folder / RUNS).iterdir():
        gone += [one / file for file in COPIED if file not in names.get(one.name, {}) and os.path.lexists(one / file)]
    for one in gone:
        one.unlink()
        with suppress(OSError):
            one.parent.rmdir()  # if it was the last
    return len(gone)
