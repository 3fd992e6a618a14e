"""One job at a time per board: a lock file per board on this machine.

The lock is the kernel's (flock), not the file's existence: it dies with its holder, however that ends.
"""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

from harness.board.session import Deadline
from harness.errors import BoardError
from harness.flock import try_exclusive

POLL_S = 0.2


@contextmanager
def board_lock(name: str, folder: Path, purpose: str, wait_s: float, notify: Callable[[str], None]) -> Iterator[None]:
    """Hold the board `name` for the time of the block; `folder` is common to all who share the board.

    While another process holds it, `notify` is told once who that is and what for (again when the
    holder changes).  Raises BoardError when the board is not free after `wait_s` seconds.
    """
    with _open(name, folder) as file:
        _acquire(file, name, wait_s, notify)
        _write_holder(file, purpose)
        try:
            yield
        finally:
            file.truncate(0)


def _open(name: str, folder: Path) -> TextIO:
    if not name or "/" in name:
        raise ValueError(f"not a board's name: {name!r}")
    path = folder / f"{name}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise BoardError(
            f"cannot open the lock {path} of board {name}: {error.strerror}",
            f"make {folder} and the lock in it writable for all who use the board",
        ) from error
    with suppress(PermissionError):  # another user's file: the owner has done it
        os.fchmod(descriptor, 0o666)  # other users of the board lock the same file, whatever the umask
    return os.fdopen(descriptor, "r+", encoding="utf-8")


def _acquire(file: TextIO, name: str, wait_s: float, notify: Callable[[str], None]) -> None:
    deadline = Deadline.after(wait_s)
    told = ""
    while not try_exclusive(file):
        in_use = f"board {name} is in use by {_read_holder(file)}"
        if deadline.passed:
            raise BoardError(f"{in_use}; not free after {wait_s:g} s", "try again later, or end that job")
        if in_use != told:
            notify(f"{in_use}, waiting")
            told = in_use
        time.sleep(min(POLL_S, deadline.remaining_s))


def _write_holder(file: TextIO, purpose: str) -> None:
    holder = {"pid": os.getpid(), "user": _user(), "purpose": purpose, "since": time.time()}
    file.seek(0)
    file.truncate()
    json.dump(holder, file)
    file.flush()


def _read_holder(file: TextIO) -> str:
    file.seek(0)
    try:
        holder = json.load(file)
        return f"pid {holder['pid']} ({holder['user']}, {holder['purpose']}) since {_clock(holder['since'])}"
    except (ValueError, LookupError, TypeError):  # caught between taking the lock and writing its name
        return "another process"


def _clock(since_s: float) -> str:
    since = datetime.fromtimestamp(since_s).astimezone()
    today = since.date() == datetime.now().astimezone().date()
    return since.strftime("%H:%M" if today else "%Y-%m-%d %H:%M")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
