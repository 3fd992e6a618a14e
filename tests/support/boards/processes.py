"""The processes of this machine, for tests that must leave none behind."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path


def running(*argv: str) -> list[int]:
    """The pids of the processes with exactly this command line."""
    wanted = "".join(f"{argument}\0" for argument in argv).encode()
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            if command.read_bytes() == wanted:
                found.append(int(command.parent.name))
    return found


def await_none(*argv: str, timeout_s: float = 30) -> None:
    """Assert that the processes with this command line end; the kernel and the guard on the board take their time."""
    deadline = time.monotonic() + timeout_s
    while found := running(*argv):
        assert time.monotonic() < deadline, f"{argv} still runs: {found}"
        time.sleep(0.02)
