"""A lock that allows one night at a time in a folder of runs."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.core.errors import ToolError
from harness.core.locking import try_exclusive
from harness.runs.history.night_record import NIGHTS

POLL_S = 0.1


@contextmanager
def alone(runs: Path, notify: Callable[[str], None]) -> Iterator[int]:
    """Lock the nights of this folder; ToolError with the holder if another process has the lock.

    Yield a descriptor that the commands of the night inherit.  Wait until the commands of a killed night have restored
    their boards.
    """
    folder = runs / NIGHTS
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as mine, (folder / "commands.lock").open("a") as commands:
        if not try_exclusive(mine):
            raise ToolError(
                f"another night is running here: {_holder(mine)}", "wait for its end, or watch it with: harness serve"
            )
        mine.truncate(0)
        mine.write(json.dumps({"pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}))
        mine.flush()
        _wait(commands, notify)
        yield commands.fileno()


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        holder = json.load(file)
        return f"pid {int(holder['pid'])}, since {str(holder['since'])[:30]}"
    except (ValueError, LookupError, TypeError):
        return "another process"


def _wait(commands: IO[str], notify: Callable[[str], None]) -> None:
    if not try_exclusive(commands):
        notify("commands of a night that was killed are restoring their boards: waiting")
        while not try_exclusive(commands):
            time.sleep(POLL_S)
    fcntl.flock(commands, fcntl.LOCK_SH)
