"""A supervisor of one command of a night, which ends the command at its time limit or at the end of the night.

`python -I -S job_supervisor.py PARENT LIMIT_S GRACE_S COMMAND...` starts COMMAND in its own process group.  After
LIMIT_S, at SIGTERM, or when the process PARENT dies, COMMAND is interrupted as by Ctrl-C, so that it
restores its board; GRACE_S later its group is killed.  If the supervisor dies, COMMAND is killed too.

Exit code: that of COMMAND, a signal as 128 and its number; 124 after the time limit, 130 after the end of PARENT.
This module does not import harness, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

TIMED_OUT, STOPPED = 124, 130
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
STOPPING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
AWAITED = {*STOPPING, signal.SIGCHLD}


def hold(parent: int, limit_s: float, grace_s: float, command: list[str]) -> int:
    """Run the command until it, its time limit or its parent ends; return the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    _die_with(parent, signal.SIGTERM)
    child = _start(command)
    code = _wait(child, limit_s)
    if code is None:
        return _told(_end(child, grace_s), TIMED_OUT)
    if child.poll() is None:
        return _told(_end(child, grace_s), STOPPED)
    _kill_group(child)
    return code


def _die_with(parent: int, number: signal.Signals) -> None:
    """Request that signal for the death of the parent; send it immediately if the parent is already dead."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    supervisor = os.getpid()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background job of a shell ignores it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
        _die_with(supervisor, signal.SIGKILL)

    return subprocess.Popen(command, process_group=0, preexec_fn=prepare)  # noqa: PLW1509 - one thread


def _wait(child: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Return the exit code of the ended child; STOPPED if it must be ended; None after that time."""
    end_s = time.monotonic() + limit_s
    while child.poll() is None:
        arrived = signal.sigtimedwait(AWAITED, max(0.0, end_s - time.monotonic()))
        if arrived is None:
            return None
        if arrived.si_signo in STOPPING:
            return STOPPED
    return _shown(child.returncode)


def _end(child: subprocess.Popen[bytes], grace_s: float) -> int | None:
    """Interrupt the child, and kill its group if that does not end it; None if it had to be killed."""
    child.send_signal(signal.SIGINT)
    end_s = time.monotonic() + grace_s
    while child.poll() is None and time.monotonic() < end_s:
        signal.sigtimedwait({signal.SIGCHLD}, max(0.0, end_s - time.monotonic()))
    code = child.poll()
    _kill_group(child)
    child.wait()
    return code


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the process group, also after its leader has ended and left other processes."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _told(code: int | None, otherwise: int) -> int:
    """Return the exit code; a command that ended just then keeps its own."""
    return code if code in {0, 1} else otherwise


def _shown(code: int) -> int:
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(hold(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
