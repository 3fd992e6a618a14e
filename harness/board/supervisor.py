"""Keeps one emulated board alive for as long as somebody uses it.

`python -m harness.board.supervisor FOLDER QEMU ARGUMENT...` starts qemu and holds a lock on FOLDER/alive.  Users hold a
shared lock on FOLDER/users; when the supervisor can lock that file alone, the last user is gone, however it ended:
it stops qemu and exits.  qemu dies with the supervisor.
"""

from __future__ import annotations

import ctypes
import fcntl
import signal
import subprocess
import sys
import time
from pathlib import Path

POLL_S = 0.1
STOP_S = 3.0
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def supervise(folder: Path, command: list[str]) -> int:
    """Run `command` until it ends or nobody uses the board of `folder` any more."""
    with (folder / "alive").open("w") as alive, (folder / "users").open("w") as users:
        fcntl.flock(alive, fcntl.LOCK_EX)
        qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)  # noqa: PLW1509 - one thread
        while qemu.poll() is None and not _alone(users):
            time.sleep(POLL_S)
        _stop(qemu)
        (folder / "state.json").unlink(missing_ok=True)
        return qemu.returncode or 0


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _alone(users: object) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
    except BlockingIOError:
        return False
    return True


def _stop(qemu: subprocess.Popen[bytes]) -> None:
    qemu.terminate()
    try:
        qemu.wait(STOP_S)
    except subprocess.TimeoutExpired:
        qemu.kill()
        qemu.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.exit(supervise(Path(sys.argv[1]), sys.argv[2:]))
