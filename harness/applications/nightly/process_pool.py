"""The commands of a night as processes, each with a supervisor."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness.applications.nightly import job_supervisor
from harness.applications.nightly.job_commands import QUEUE_S
from harness.applications.nightly.result_parser import Said
from harness.boards.locks.queue import LOCK_WAIT
from harness.core.safe_io import clean

GRACE_S = 60.0
"""Time in seconds that an interrupted command has to restore its board."""
HEADER = "==="
"""Prefix of a log line that names the next command."""
TAIL = 4096  # bytes
LINES, SHOWN = 3, 300


@dataclass(frozen=True)
class Child:
    """A running command: its supervisor, its standard output, and the offset of its output in the log."""

    process: subprocess.Popen[bytes]
    out: IO[bytes]
    log: Path
    since: int
    started_s: float

    def ended(self) -> tuple[Said, float]:
        """Return the result of the command and its duration in seconds."""
        code = self.process.wait()
        took_s = time.monotonic() - self.started_s
        with self.out as out:
            out.seek(0)
            text = out.read().decode(errors="replace")
        return Said(code, text, last_lines(self.log, self.since)), took_s


@dataclass
class Children:
    """A pool of running commands; `harness` is the beginning of each command line.

    `lock` is a descriptor that every supervisor inherits, so that the next night waits until all commands have ended.
    """

    harness: Sequence[str]
    lock: int
    grace_s: float = GRACE_S
    running: dict[str, Child] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def now_s(self) -> float:
        """Return seconds since 1970."""
        return time.time()

    def start(self, name: str, words: Sequence[str], log: Path, limit_s: float) -> None:
        """Start `harness WORDS`, its standard error at the end of the log."""
        out = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the child has ended
        with log.open("ab") as err:
            err.write(f"{HEADER} {time.strftime('%Y-%m-%dT%H:%M:%S%z')} harness {' '.join(words)}\n".encode())
            since = err.tell()
            err.flush()
            process = subprocess.Popen(
                [*self._supervisor(limit_s), *self.harness, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=(self.lock,),
                start_new_session=True,
                env={**os.environ, LOCK_WAIT: f"{QUEUE_S:g}"},
            )
        self.running[name] = Child(process, out, log, since, time.monotonic())
        self.selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, name)

    def _supervisor(self, limit_s: float) -> list[str]:
        return [sys.executable, "-I", "-S", job_supervisor.__file__, str(os.getpid()), str(limit_s), str(self.grace_s)]

    def wait(self, timeout_s: float | None = None) -> tuple[str, Said, float] | None:
        """Wait until a command ends; return its name, its result and its duration in seconds.

        None if all commands still run after `timeout_s`.
        """
        for key, _ in self.selector.select(timeout_s):
            self.selector.unregister(key.fd)
            os.close(key.fd)
            said, took_s = self.running.pop(key.data).ended()
            return key.data, said, took_s
        return None

    def stop(self) -> None:
        """Interrupt all commands, and wait until they have restored their boards or were killed."""
        for child in self.running.values():
            child.process.send_signal(signal.SIGTERM)
        while self.running:
            self.wait()


def last_lines(log: Path, since: int = 0) -> tuple[str, ...]:
    """Return the last non-empty lines of a log after byte `since`, without control characters."""
    with log.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(since, end - TAIL))
        text = clean(file.read().decode(errors="replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return tuple(line[:SHOWN] for line in lines[-LINES:])
