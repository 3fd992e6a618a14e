"""Processes that hold a board, or wait for one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.boards.locks import lock
from harness.boards.locks.folder import opened
from harness.boards.locks.queue import Queue, Terms

ROOT = Path(__file__).parents[3]
LONG = Terms()
SHORT = Terms(lease_s=0.5, beat_s=0.05)
"""A lease for tests in which somebody hangs."""

lock.POLL_S = 0.02  # who waits looks often: most of these tests is waiting

HOLD = """
import sys
from pathlib import Path
from tests.support.locks.holder import Terms, board
with board(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), Terms(*map(float, sys.argv[4:6]))) as held:
    print("held", flush=True)
    for line in sys.stdin:
        held.check()
        print("still", flush=True)
"""


@contextmanager
def queue(folder: Path, board: str = "xavier") -> Iterator[Queue]:
    with opened(folder, shared=True) as files:
        yield Queue(files, board, board)


@contextmanager
def board(folder: Path, purpose: str, wait_s: float, terms: Terms = LONG) -> Iterator[lock.Held]:
    """Hold xavier, telling on standard output what is told."""
    with queue(folder) as xavier, lock.locked(xavier, purpose, wait_s, _say, terms) as held:
        yield held


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Holder:
    """Another process; what it prints is read line by line."""

    def __init__(self, folder: Path, purpose: str = "run acas_coc", wait_s: float = 0, terms: Terms = LONG) -> None:
        arguments = [str(folder), purpose, str(wait_s), str(terms.lease_s), str(terms.beat_s)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-c", HOLD, *arguments]
        self.process = subprocess.Popen(command, text=True, cwd=ROOT, bufsize=1, **pipes)  # type: ignore[call-overload]

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def line(self) -> str:
        """The next thing that it says."""
        return str(self.process.stdout.readline()).rstrip("\n")

    def goes_on(self) -> bool:
        """Whether it still has the board."""
        self.process.stdin.write("\n")
        return self.line() == "still"

    def end(self) -> str:
        """Let it end; gives its last words."""
        _, err = self.process.communicate(timeout=30)
        return str(err)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def held_elsewhere(folder: Path, terms: Terms = LONG) -> Iterator[Holder]:
    holder = Holder(folder, terms=terms)
    try:
        assert holder.line() == "held"
        yield holder
    finally:
        holder.kill()


NOBODY = 65534


@contextmanager
def nobody(work: Callable[[], None]) -> Iterator[int]:
    """Another user's process that does `work`; gives its pid, and asserts that it ended well unless it was killed."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            work()
            status = 0
        finally:
            os._exit(status)
    try:
        yield pid
    finally:
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in {0, -signal.SIGKILL}


@contextmanager
def common_folder() -> Iterator[Path]:
    """A folder that other users find, which pytest's are not."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "locks"
