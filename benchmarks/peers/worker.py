"""A contender as a process of its own, and the commands that it answers: whatever its language, blocks can alternate.

The protocol is that of README.md, Peers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Array

LIMIT_S = 600.0  # for one answer; IREE compiles before its first
LONGEST = 120  # characters of a reason
KINDS = ("model", "int8", "float")


class Unavailable(Exception):
    """A contender cannot be measured; its text is the row that says why."""


class NotInstalled(Unavailable):
    """The peer's packages, as pip names them, are not there."""

    def __init__(self, packages: str) -> None:
        super().__init__(f"not installed: pip install {packages}")


class Failed(Unavailable):
    """The contender is there, but died, spoke nonsense or computed something else."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"failed: {reason}")


class Worker:
    """One running contender; `version` and `computes` are what it said of itself.

    Every method raises Failed where the process ends, is silent for `limit_s`, or answers what nobody asked.
    """

    def __init__(self, command: Sequence[str], core: int, log: Path, limit_s: float = LIMIT_S) -> None:
        """Start `command` on `core`, its messages in the file `log`; NotInstalled where it says that it is not."""
        self._log, self._limit_s = log, limit_s
        with log.open("w") as messages, pinned(core):
            self._process = _start(command, messages)
        try:
            self.version, self.computes = _introduced(self._line())
        except Unavailable:
            self.close()
            raise

    def outputs(self, path: Path, shape: tuple[int, ...]) -> Array:
        """Return the contender's outputs for all vectors, float32 of `shape`, which it writes to `path`."""
        self._ask(f"outputs {path}")
        try:
            values: Array = np.load(path)
        except (OSError, ValueError) as error:
            raise Failed(f"wrote no outputs: {error}") from error
        if values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
            raise Failed(f"its outputs are {values.dtype} {values.shape}, not finite float32 {shape}")
        return values

    def times_ns(self, kind: str, calls: int) -> list[int]:
        """Of `calls` single calls: of the inference where `kind` is `go`, of empty ones where it is `empty`."""
        answer = self._ask(f"{kind} {calls}")
        try:
            times_ns = [int(word) for word in answer.split()]
        except ValueError as error:
            raise Failed(f"answered {kind} with {answer[:60]!r}") from error
        if len(times_ns) != calls or min(times_ns) < (kind == "go"):  # a call takes time
            raise Failed(f"answered {kind} {calls} with {len(times_ns)} times, {answer[:60]!r}")
        return times_ns

    def threads(self) -> int:
        """How many threads its process has, as the kernel counts them."""
        return len(list(Path(f"/proc/{self._process.pid}/task").iterdir()))

    def close(self) -> None:
        """End the process; its input ends, and it is killed where that does not end it."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    def _ask(self, command: str) -> str:
        try:
            self._stdin.write(command + "\n")
            self._stdin.flush()
        except OSError:
            raise Failed(self._death()) from None
        return self._line()

    def _line(self) -> str:
        silent = threading.Event()
        timer = threading.Timer(self._limit_s, lambda: (silent.set(), self._process.kill()))
        timer.start()
        try:
            line = self._stdout.readline()
        finally:
            timer.cancel()
        if silent.is_set():
            raise Failed(f"no answer within {self._limit_s:g} s")
        if not line.endswith("\n"):
            raise Failed(self._death())
        return str(line).strip()

    def _death(self) -> str:
        """How the process ended, and its last words."""
        status = self._process.wait()
        words = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return f"{telling(words) if words else 'not a word'} (exit status {status})"

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    @property
    def _stdout(self) -> Any:
        return self._process.stdout


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """Run the processes that are started in this context on `core`; this process returns to its own cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _start(command: Sequence[str], messages: Any) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages, text=True)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error


def _introduced(line: str) -> tuple[str, str]:
    """(version, computes) of the first line."""
    try:
        told = json.loads(line)
        if "not_installed" in told:
            raise NotInstalled(str(told["not_installed"]))
        version, computes = str(told["version"]), told["computes"]
    except (ValueError, TypeError, KeyError) as error:
        raise Failed(f"introduced itself with {line[:60]!r}") from error
    if computes not in KINDS:
        raise Failed(f"computes {computes!r}, which is none of {', '.join(KINDS)}")
    return version, computes


def telling(words: Sequence[str]) -> str:
    """Return the line of a log that says most: that of its last error, or else the last."""
    errors = [line for line in words if re.search(r"\berror: |^[\w.]*Error: ", line)]
    return (errors[-1] if errors else words[-1])[:LONGEST]
