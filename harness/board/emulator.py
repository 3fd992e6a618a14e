"""The emulated board: a real aarch64 Linux in qemu, reached over real SSH on loopback.

It is started by the first who needs it, shared by all processes that use it at the same time, and stopped with the
last, also if that one is killed (see supervisor.py).
"""

from __future__ import annotations

import fcntl
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from harness.board import image
from harness.board.image import Image
from harness.errors import RequestError, ToolError
from harness.toolchain import install_command

QEMU = "qemu-system-aarch64"
BOOT_S = 90.0
SILENCE_S = (0.3, 5.0)  # qemu accepts connections before the guest listens: such a one stays silent
STARTS = 3


@dataclass(frozen=True)
class Machine:
    """What a profile asks for; `disk_mib` is the size of the board's work folder, held in its memory."""

    cpu: str
    cores: int
    memory_mib: int
    disk_mib: int


@dataclass(frozen=True)
class Endpoint:
    """How to reach a running board; `qmp` is qemu's control socket."""

    host: str
    port: int
    user: str
    key: Path
    known_hosts: Path
    qmp: Path


@dataclass(frozen=True)
class Keys:
    """The user's key file and the OpenSSH forms of the public user key and of the board's key pair."""

    user: Path
    user_public: bytes
    host: bytes
    host_public: bytes


@contextmanager
def emulated(name: str, machine: Machine, cache: Path, notify: Callable[[str], None]) -> Iterator[Endpoint]:
    """A running board for the time of the block.

    `cache` holds packages, image, keys and state; `notify` hears of what takes time.  ToolError if qemu is missing
    or the board does not boot, RequestError if a board of that name runs on another machine description.
    """
    if shutil.which(QEMU) is None:
        raise ToolError(f"{QEMU} is not on this machine", f"run: {install_command(QEMU)}")
    folder = cache / "emulator" / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "users").open("w") as users:
        with (folder / "start").open("w") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_SH)  # waits for a supervisor that is just stopping
            keys = _keys(cache / "emulator" / "keys")
            if not _alive(folder):
                guest = image.build(cache / "emulator" / "image", keys.host, keys.user_public, notify)
                notify(f"booting {name} ({machine.cpu} x {machine.cores}, emulated)")
                _start(folder, name, machine, guest, keys)
            endpoint = _endpoint(folder, name, machine, keys)
        yield endpoint


def _alive(folder: Path) -> bool:
    """Whether a supervisor holds its lock."""
    with (folder / "alive").open("a") as alive:
        try:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return (folder / "state.json").exists()
    return False


def _keys(folder: Path) -> Keys:
    """The keys of this cache, made when they are first needed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    user, host = _private(folder / "user"), _private(folder / "host")
    return Keys(folder / "user", _public(user), (folder / "host").read_bytes(), _public(host))


def _private(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    if not path.exists():
        content = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        temporary = path.with_suffix(".part")
        temporary.touch(mode=0o600)
        temporary.write_bytes(content)
        temporary.replace(path)
    key = load_ssh_private_key(path.read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ToolError(f"{path} is no Ed25519 key", f"remove {path.parent}: new keys are made")
    return key


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def _start(folder: Path, name: str, machine: Machine, guest: Image, keys: Keys) -> None:
    """Boot, and publish the state when the board answers; another port if somebody else was faster."""
    for _ in range(STARTS):
        port = _free_port()
        command = _command(folder, name, machine, guest, port)
        with (folder / "qemu.log").open("wb") as log:
            supervisor = subprocess.Popen(
                [sys.executable, "-m", "harness.board.supervisor", str(folder), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if _answers(port, supervisor):
            _publish(folder, machine, port, supervisor.pid, keys)
            return
        supervisor.terminate()
        supervisor.wait()
        if b"host forwarding" not in (folder / "qemu.log").read_bytes():
            break
    raise ToolError(f"the emulated board {name} did not boot: {_last_words(folder)}", f"see {folder / 'console.log'}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _command(folder: Path, name: str, machine: Machine, guest: Image, port: int) -> list[str]:
    boot = f"console=ttyAMA0 quiet panic=-1 harness.name={name} harness.disk={machine.disk_mib}m"
    forward = f"hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22"
    return [
        QEMU,
        *("-M", "virt,gic-version=3", "-cpu", machine.cpu, "-smp", str(machine.cores), "-m", str(machine.memory_mib)),
        *("-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot"),
        *("-serial", f"file:{folder / 'console.log'}"),
        *("-kernel", str(guest.kernel), "-initrd", str(guest.initramfs)),
        *("-append", f"{boot} harness.time={int(time.time())}"),
        *("-netdev", f"user,id=n0,restrict=on,{forward}", "-device", "virtio-net-device,netdev=n0"),
        *("-device", "virtio-rng-device", "-qmp", f"unix:{folder / 'qmp'},server=on,wait=off"),
    ]


def _answers(port: int, supervisor: subprocess.Popen[bytes]) -> bool:
    """Wait for the SSH server's banner; False if qemu ended or the time is over."""
    end_s = time.monotonic() + BOOT_S
    silence_s, longest_s = SILENCE_S
    while time.monotonic() < end_s and supervisor.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), silence_s) as link:
            if link.recv(4) == b"SSH-":
                return True
        time.sleep(0.05)
        silence_s = min(1.3 * silence_s, longest_s)  # a busy machine's guest needs longer for its first word
    return False


def _publish(folder: Path, machine: Machine, port: int, supervisor_pid: int, keys: Keys) -> None:
    (folder / "known_hosts").write_bytes(b"[127.0.0.1]:%d %s\n" % (port, keys.host_public))
    state = {"port": port, "supervisor_pid": supervisor_pid, "machine": asdict(machine)}
    temporary = folder / "state.part"
    temporary.write_text(json.dumps(state))
    temporary.replace(folder / "state.json")


def _endpoint(folder: Path, name: str, machine: Machine, keys: Keys) -> Endpoint:
    state: dict[str, Any] = json.loads((folder / "state.json").read_text())
    if state["machine"] != asdict(machine):
        running = ", ".join(f"{key} {value}" for key, value in state["machine"].items())
        raise RequestError(
            f"board {name} is running, emulated with {running}, and in use",
            "wait until its users have ended, or use the same emulator entry",
        )
    return Endpoint("127.0.0.1", state["port"], "root", keys.user, folder / "known_hosts", folder / "qmp")


def _last_words(folder: Path) -> str:
    for name in ("qemu.log", "console.log"):
        with suppress(OSError):
            text = (folder / name).read_text(errors="replace").strip()
            if text:
                return text[-500:]
    return "it said nothing"
