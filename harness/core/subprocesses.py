"""Tools of this machine that run for minutes or hours: output to a log, progress reports, a time limit."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness.core.errors import ToolError
from harness.core.text import duration

Notify = Callable[[str], None]

POLL_S = 0.5
LAST_WORDS = 3  # lines
SHOWN = 100  # characters of a line

# Variables that could add headers, libraries, programs or options to the compilers that a tool calls.
REACH_COMPILERS = {
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH"),
    *("GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS", "LD_RUN_PATH", "LD_PRELOAD", "CFLAGS", "CXXFLAGS", "LDFLAGS"),
}


@dataclass(frozen=True)
class ToolCall:
    """A command and its texts: the activity (`building`), its noun (`the build`), a hint for failures.

    `environment` is added to this process's environment, from which REACH_COMPILERS are removed.  Progress is reported
    every `tell_every_s`.
    """

    command: Sequence[str]
    doing: str
    noun: str
    log: Path
    timeout_s: float
    tell_every_s: float
    if_missing: str = "install it"
    if_failed: str = ""
    folder: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class _Heard:
    """Output of the tool: the number of lines and the last non-empty lines."""

    lines: int = 0
    part: bytes = b""
    last: tuple[str, ...] = ()

    def add(self, chunk: bytes) -> None:
        *whole, self.part = (self.part + chunk).split(b"\n")
        self.lines += len(whole)
        self._remember(whole)

    def end(self) -> None:
        """Count the text after the last line feed as a line."""
        self._remember([self.part])

    def _remember(self, lines: Sequence[bytes]) -> None:
        said = (line.decode(errors="replace").strip() for line in lines)
        self.last = (*self.last, *(line for line in said if line))[-LAST_WORDS:]


def run(call: ToolCall, notify: Notify) -> None:
    """Run the command to its end; ToolError if the program is missing, fails, or runs longer than `timeout_s`.

    The program and all processes that it started are killed after a timeout and when this process is interrupted.
    """
    started_s = told_s = time.monotonic()
    heard = _Heard()
    with call.log.open("ab") as log:
        process = _start(call)
        try:
            for chunk in _output(process):
                log.write(chunk)
                heard.add(chunk)
                now_s = time.monotonic()
                if now_s - started_s > call.timeout_s:
                    raise ToolError(
                        f"{call.noun} did not end within {call.timeout_s:g} s and was stopped",
                        f"see its log: {call.log}",
                    )
                if now_s - told_s > call.tell_every_s:
                    told_s = now_s
                    notify(_progress(call, heard, now_s - started_s))
        finally:  # an interrupt of this process does not reach the program's own session
            _end(process)
    heard.end()
    if process.returncode != 0:
        said = " / ".join(heard.last) or "it said nothing"
        raise ToolError(
            f"{call.noun} failed, exit status {process.returncode}: {said}",
            call.if_failed or f"its complete output is in {call.log}",
        )


def _start(call: ToolCall) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            call.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=call.folder,
            env={name: value for name, value in os.environ.items() if name not in REACH_COMPILERS} | call.environment,
        )
    except OSError as error:
        raise ToolError(f"cannot run {call.command[0]}: {error.strerror}", call.if_missing) from error


def _output(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield the output of the program as it arrives, and empty chunks while the program is silent.

    It ends with the program, because a background process may keep the output open forever.
    """
    stream = _stdout(process)
    while True:
        ended = process.poll() is not None
        ready, _, _ = select.select([stream], [], [], 0 if ended else POLL_S)
        chunk = os.read(stream.fileno(), 1 << 16) if ready else b""
        yield chunk
        if not chunk and ended:
            return
        if not chunk and ready:  # it has closed its output, and ends or continues
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)


def _stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdout is None:
        raise TypeError(process)
    return process.stdout


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and all processes that it started, if it still runs."""
    stream = _stdout(process)
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # Children that write to the same stream have ended when the stream ends.
        while select.select([stream], [], [], POLL_S)[0] and os.read(stream.fileno(), 1 << 16):
            pass
    stream.close()


def _progress(call: ToolCall, heard: _Heard, elapsed_s: float) -> str:
    last = heard.last[-1][:SHOWN] if heard.last else "it is silent"
    return f"{call.doing}, {heard.lines} lines: {last} ({duration(int(elapsed_s))})"
