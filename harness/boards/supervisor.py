"""Supervisor of one emulated board: run it as long as it has users.

`python -m harness.boards.supervisor FOLDER ALIVE PORT MACHINE QEMU ARGUMENT...` goes into the background and starts
qemu there.  ALIVE is the descriptor of a locked file, which is unlocked when the supervisor has ended.
MACHINE is JSON, for others to read in FOLDER/state.json, which appears when the board answers on PORT.

Users hold a shared lock on FOLDER/users.  When the supervisor can lock that file exclusively, the last user has ended:
it stops qemu and exits.  qemu is killed with the supervisor.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.core.locking import try_exclusive

POLL_S = 0.05
BOOT_S = 180.0  # on a machine that does much else
STOP_S = 3.0
ANSWER_S = 20.0
PATIENCE_S = 5.0
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def supervise(folder: Path, port: int, machine: object, command: list[str]) -> None:
    """Run the qemu `command` in `folder` until it ends or the board has no users any more."""
    with (folder / "users").open("w") as users:
        qemu = _start(command, folder)

        def wanted() -> bool:
            return qemu.poll() is None and not try_exclusive(users)

        try:
            if _listens(folder / "console.log", wanted) and answers(port, wanted):
                _publish(
                    folder, {"port": port, "machine": machine, "supervisor_pid": os.getpid(), "qemu_pid": qemu.pid}
                )
                while wanted():
                    time.sleep(POLL_S)
        finally:
            for name in ("state.json", "known_hosts", "qmp"):
                (folder / name).unlink(missing_ok=True)
            _stop(qemu)


def answers(port: int, alive: Callable[[], bool]) -> bool:
    """Return whether an SSH server sends its banner on this port within `ANSWER_S` seconds while `alive`."""
    end_s = time.monotonic() + ANSWER_S
    while alive() and time.monotonic() < end_s:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE_S) as link:
            if link.recv(4) == b"SSH-":
                return True
        time.sleep(POLL_S)
    return False


def _listens(console: Path, alive: Callable[[], bool]) -> bool:
    """Return whether the guest's console shows within `BOOT_S` seconds, while `alive`, that its SSH server listens.

    Before that, qemu would accept a connection that stays silent.
    """
    end_s = time.monotonic() + BOOT_S
    while alive() and time.monotonic() < end_s:
        with suppress(FileNotFoundError):
            if b"Server listening" in console.read_bytes():
                return True
        time.sleep(POLL_S)
    return False


def _start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    supervisor = os.getpid()

    def die_with_supervisor() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it died before the line above
            os._exit(1)

    # In its folder, as the path of a socket is short.
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, preexec_fn=die_with_supervisor)  # noqa: PLW1509 - one thread


def _publish(folder: Path, state: object) -> None:
    part = folder / "state.part"
    part.write_text(json.dumps(state))
    part.replace(folder / "state.json")


def _stop(qemu: subprocess.Popen[bytes]) -> None:
    qemu.terminate()
    try:
        qemu.wait(STOP_S)
    except subprocess.TimeoutExpired:
        qemu.kill()
        qemu.wait()


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    supervise(Path(sys.argv[1]), int(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5:])
