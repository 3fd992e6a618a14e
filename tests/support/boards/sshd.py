"""A real OpenSSH server on loopback, as an ordinary process, and a TCP link to it that can be made to fail."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from harness.boards.ssh import Address

LOOPBACK = "127.0.0.1"
STARTS = 3
CONFIGURATION = """\
ListenAddress {host}
ListenAddress ::1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PidFile none
MaxStartups 100
SetEnv HOME={folder}
"""


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


HAS_IPV6 = _has_ipv6()


def program() -> str | None:
    """The SSH server of this machine; it must be started by an absolute path."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def make_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses every connection: nobody listens there, nor can."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield int(bound.getsockname()[1])


def know(known_hosts: Path, port: int, public_key: Path) -> Path:
    """Write a known hosts file that expects this host key behind a port of this machine."""
    known_hosts.write_text(f"[{LOOPBACK}]:{port} {public_key.read_text()}")
    return known_hosts


@dataclass(frozen=True)
class Server:
    folder: Path
    port: int

    @property
    def host_key(self) -> Path:
        return self.folder / "host_key.pub"

    @property
    def address(self) -> Address:
        return Address(LOOPBACK, getpass.getuser(), self.port, self.folder / "user_key", self.folder / "known_hosts")

    def address_behind(self, port: int) -> Address:
        """The address of this server as seen through a link that listens on `port`."""
        return replace(
            self.address, port=port, known_hosts=know(self.folder / f"known_hosts_{port}", port, self.host_key)
        )


@contextlib.contextmanager
def serving(executable: str, folder: Path) -> Iterator[Server]:
    make_key(folder / "host_key")
    make_key(folder / "user_key")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # the system service would make its privilege separation folder
    process, server = _started(executable, folder)
    with process:
        try:
            yield server
        finally:
            process.terminate()


def _started(executable: str, folder: Path) -> tuple[subprocess.Popen[bytes], Server]:
    """On a port that was free, and is another's by now where the server ends at once."""
    options = _without_penalties(executable)
    for number in range(STARTS):
        server, log = Server(folder, free_port()), folder / f"log{number}"
        know(folder / "known_hosts", server.port, server.host_key)
        configuration = folder / "sshd_config"
        configuration.write_text(CONFIGURATION.format(host=LOOPBACK, port=server.port, folder=folder))
        process = subprocess.Popen([executable, "-D", "-f", str(configuration), "-E", str(log), *options])
        if _listens(process, log):
            return process, server
    raise TimeoutError(f"no SSH server: {log.read_text()}")


def _without_penalties(executable: str) -> list[str]:
    """Servers since OpenSSH 9.8 shut out a host that fails as often as these tests do; older ones lack the option."""
    option = ["-o", "PerSourcePenalties=no"]
    known = subprocess.run([executable, "-T", "-f", os.devnull, *option], capture_output=True, check=False)
    return option if b"PerSourcePenalties" not in known.stderr else []


def _listens(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether it comes to that, in its own words."""
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            if b"Server listening" in log.read_bytes():
                return True
        time.sleep(0.02)
    return False


class Link:
    """A TCP link to a local port that can be cut, or fall silent, on demand or after so many bytes from the server.

    Every 64 KiB take `pause_s`; after `trickle` every piece of another size.
    """

    def __init__(
        self, port: int, *, cut_after: int | None = None, silent_after: int | None = None, pause_s: float = 0.0
    ) -> None:
        self._target = port
        self._pause_s, self._piece_bytes = pause_s, 1 << 16
        self._cut_after = cut_after
        self._silent_after = silent_after
        self._server = socket.create_server((LOOPBACK, 0))
        self._sockets: list[socket.socket] = []
        self._silent = threading.Event()
        self._over = threading.Event()
        self.port: int = self._server.getsockname()[1]
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def cut(self) -> None:
        """End all connections.  A close alone sends nothing while another thread waits in `recv`."""
        self._over.set()
        for end in [self._server, *self._sockets]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def silence(self) -> None:
        """Keep the connections open and forward nothing any more, in either direction."""
        self._silent.set()

    def trickle(self, piece_bytes: int, pause_s: float) -> None:
        """Forward so many bytes, in either direction, and pause before each of the next."""
        self._piece_bytes, self._pause_s = piece_bytes, pause_s

    @staticmethod
    def _start(work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection((LOOPBACK, self._target))
                self._sockets += [client, server]
                self._start(self._forward, client, server, None, None)
                self._start(self._forward, server, client, self._cut_after, self._silent_after)

    def _forward(
        self, source: socket.socket, sink: socket.socket, cut_after: int | None, silent_after: int | None
    ) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self._silent.is_set():
                    self._over.wait()
                place = 0
                while piece := data[place : place + self._piece_bytes]:
                    time.sleep(self._pause_s)
                    sink.sendall(piece)
                    place += len(piece)
                passed += len(data)
                if cut_after is not None and passed >= cut_after:
                    self.cut()
                if silent_after is not None and passed >= silent_after:
                    self.silence()
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)  # also where the source was reset


def fingerprint(public_key: Path) -> str:
    """The SHA-256 fingerprint of a public key, as OpenSSH tells it."""
    told = subprocess.run(["ssh-keygen", "-l", "-f", public_key], capture_output=True, check=True, text=True).stdout
    return told.split()[1]
