"""The emulated board: a real aarch64 Linux in qemu, reached over real SSH on loopback.

The first process that needs it starts it; all processes that use it at the same time share it.  It stops with the last
of them, also if that process is killed (see supervisor.py).
"""

from __future__ import annotations

import fcntl
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import sleep

from harness.boards import image
from harness.boards.identity import GUEST_MARK
from harness.boards.keys import GUEST_KEYS, Keys, keys_in
from harness.boards.supervisor import POLL_S, answers
from harness.core.debian_packages import install_command
from harness.core.errors import RequestError, ToolError
from harness.core.locking import exclusive, try_exclusive

QEMU = "qemu-system-aarch64"
STARTS = 3


@dataclass(frozen=True)
class Machine:
    """Virtual machine of a profile: qemu's name of the CPU, and the size of the work folder, held in memory.

    A `counting` machine has an exact instruction counter; qemu has one for all cores, so the machine has one core.
    """

    cpu: str
    cores: int
    memory_mib: int
    disk_mib: int
    counting: bool = False


@dataclass(frozen=True)
class Endpoint:
    """SSH address of a running board; `qmp` is qemu's control socket."""

    host: str
    port: int
    user: str
    key: Path
    known_hosts: Path
    qmp: Path


@dataclass(frozen=True)
class _Board:
    """A board's name, its machine, and the folder that its users and its supervisor share."""

    name: str
    machine: Machine
    folder: Path


@contextmanager
def emulated(name: str, machine: Machine, cache: Path, notify: Callable[[str], None]) -> Iterator[Endpoint]:
    """Provide a running board during the block, with an empty /board if it has no other user.

    `cache` holds packages, image, keys and state; `notify` receives messages about slow steps.  ToolError if qemu is
    missing, the guest cannot be built or the board does not answer; RequestError if a board of that name is in use as a
    different machine.
    """
    if shutil.which(QEMU) is None:
        raise ToolError(f"{QEMU} is not on this machine", f"run: {install_command(QEMU)}")
    board = _Board(name, machine, cache / "emulator" / name)
    board.folder.mkdir(parents=True, exist_ok=True)
    with (board.folder / "users").open("w") as users:
        with exclusive(board.folder / "start"):
            fcntl.flock(users, fcntl.LOCK_SH)  # waits for a supervisor that is just stopping
            keys = keys_in(cache / GUEST_KEYS)
            port = _running(board) or _boot(board, keys, cache / "guest", notify)
        yield Endpoint("127.0.0.1", port, "root", keys.user, board.folder / "known_hosts", board.folder / "qmp")


def _running(board: _Board) -> int | None:
    """Return the port of the board once it answers; None if the board does not run or has stopped."""
    while _supervised(board):
        with suppress(FileNotFoundError):  # it is booting or stopping
            state = json.loads((board.folder / "state.json").read_text())
            _check_machine(board, state["machine"])
            if answers(state["port"], lambda: _supervised(board)):
                return int(state["port"])
            if _supervised(board):
                raise ToolError(
                    f"the emulated board {board.name} does not answer",
                    f"if it is not just overloaded: kill {state['supervisor_pid']}",
                )
        sleep(POLL_S)
    return None


def _supervised(board: _Board) -> bool:
    with (board.folder / "alive").open("w") as alive:
        return not try_exclusive(alive)


def _check_machine(board: _Board, running: dict[str, object]) -> None:
    if running != asdict(board.machine):
        words = ", ".join(f"{key} {value}" for key, value in running.items())
        raise RequestError(
            f"board {board.name} is in use as another emulated machine ({words})",
            "wait until its users have ended, or ask for the same machine",
        )


def _boot(board: _Board, keys: Keys, guest: Path, notify: Callable[[str], None]) -> int:
    built = image.build(guest, keys.host_private, keys.user_public, notify)
    notify(f"booting {board.name} ({board.machine.cpu} x {board.machine.cores})")
    for _ in range(STARTS):
        _launch(board, keys, built, _free_port())
        port = _running(board)
        if port is not None:
            return port
        if (
            b"host forwarding" not in (board.folder / "qemu.log").read_bytes()
        ):  # otherwise another process took the port
            break
    raise ToolError(
        f"the emulated board {board.name} did not boot: {_last_words(board.folder)}",
        f"its complete output is in {board.folder}: qemu.log, console.log",
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _launch(board: _Board, keys: Keys, guest: image.Image, port: int) -> None:
    """Start a supervisor; it inherits the locked file `alive`."""
    (board.folder / "console.log").unlink(missing_ok=True)
    (board.folder / "state.json").unlink(missing_ok=True)  # of a supervisor that was killed
    (board.folder / "known_hosts").write_bytes(b"[127.0.0.1]:%d %s\n" % (port, keys.host_public))
    with (board.folder / "alive").open("w") as alive, (board.folder / "qemu.log").open("wb") as log:
        fcntl.flock(alive, fcntl.LOCK_EX)
        arguments = [str(board.folder), str(alive.fileno()), str(port), json.dumps(asdict(board.machine))]
        subprocess.run(
            [sys.executable, "-m", "harness.boards.supervisor", *arguments, *_command(board, guest, port)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(alive.fileno(),),
            start_new_session=True,
        )


def _command(board: _Board, guest: image.Image, port: int) -> list[str]:
    """Return Qemu's command line; its working directory must be the board's folder.

    Without address randomisation and mitigations the guest's kernel leaves its page table in place at a system call;
    to exchange it empties qemu's address cache.
    """
    machine = board.machine
    given = f"{GUEST_MARK}{board.name} harness.disk={machine.disk_mib}m"
    forward = f"hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22"
    return [
        QEMU,
        *("-M", "virt,gic-version=3", "-cpu", machine.cpu, "-smp", str(machine.cores), "-m", str(machine.memory_mib)),
        *(("-icount", "shift=3,sleep=on") if machine.counting else ()),
        *("-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot", "-serial", "file:console.log"),
        *("-kernel", str(guest.kernel), "-initrd", str(guest.initramfs)),
        *("-append", f"console=ttyAMA0 quiet panic=-1 nokaslr mitigations=off {given}"),
        *("-netdev", f"user,id=n0,restrict=on,{forward}", "-device", "virtio-net-device,netdev=n0"),
        *("-device", "virtio-rng-device", "-qmp", "unix:qmp,server=on,wait=off"),
    ]


def _last_words(folder: Path) -> str:
    for name in ("console.log", "qemu.log"):  # the first is empty where qemu itself failed
        with suppress(OSError):
            text = (folder / name).read_text(errors="replace").strip()
            if text:
                return text[-500:]
    return "it said nothing"
