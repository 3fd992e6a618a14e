"""A microcontroller in qemu behind a serial port of this machine: it keeps what is flashed, and can be reset.

The harness sees what it would see of hardware: a device file, a command that flashes, and one that resets.  The line
between them can be made to fail.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import threading
import tty
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.boards.bare_metal import machine_options
from harness.boards.profile import BareMetal, Profile

CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as control:
    control.sendall(" ".join(sys.argv[2:]).encode())
    control.shutdown(socket.SHUT_WR)
    sys.exit(int(control.recv(9)))
"""

Change = Callable[[bytes], bytes]
"""A disturbance of the line: what becomes of bytes."""


class Microcontroller:
    """The board of a profile; `to_host` and `to_board` disturb its line, `flash_status` is that of the command."""

    def __init__(self, folder: Path, profile: Profile) -> None:
        assert profile.bare_metal
        assert profile.bare_metal.serial
        self._processor: BareMetal = profile.bare_metal
        self.flashed = folder / "flashed"
        self.flash_count = self.reset_count = 0
        self.flash_status = 0
        self.to_host: Change = bytes
        self.to_board: Change = bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        self._slave = slave
        self.port = folder / "ttyACM0"
        self.port.symlink_to(os.ttyname(slave))
        self._control = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=work) for work in (self._serve, self._carry_out, self._carry_in)]
        client = [sys.executable, "-c", CLIENT, str(self._control.getsockname()[1])]
        serial = profile.bare_metal.serial.model_copy(
            update={
                "port": str(self.port),
                "flash": (*client, "flash", "{program}"),
                "reset": (*client, "reset"),
            }
        )
        processor = profile.bare_metal.model_copy(update={"serial": serial})
        self.profile = profile.model_copy(update={"bare_metal": processor})

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._stop()
        for thread in self._threads:
            thread.join()
        self._control.close()
        os.close(self._master)
        os.close(self._slave)

    def reset(self) -> None:
        """Start the processor with what is flashed; without a program it does nothing."""
        with self._lock:
            self.reset_count += 1
            self._stop()
            if self.flashed.exists():
                words = [*machine_options(self._processor), "-serial", "stdio", "-kernel", str(self.flashed)]
                self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def flash(self, program: str) -> None:
        """Keep another program, which does not begin before the next reset."""
        self.flash_count += 1
        if self.flash_status == 0:
            shutil.copy(program, self.flashed)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _serve(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._control], [], [], 0.05)[0]:
                continue
            connection, _ = self._control.accept()
            with connection:
                command, _, argument = connection.makefile().read().partition(" ")
                if command == "reset":
                    self.reset()
                else:
                    self.flash(argument)
                connection.sendall(str(self.flash_status if command == "flash" else 0).encode())

    def _carry_out(self) -> None:
        """Carry what the processor sends."""
        while not self._ended.is_set():
            process = self._process
            if process is None or process.stdout is None:
                self._ended.wait(0.01)
                continue
            try:
                if select.select([process.stdout], [], [], 0.05)[0]:
                    content = os.read(process.stdout.fileno(), 4096)
                    os.write(self._master, self.to_host(content))
                    if not content:
                        self._ended.wait(0.01)
            except (OSError, ValueError):  # it was reset
                self._ended.wait(0.01)

    def _carry_in(self) -> None:
        """Carry what the host sends."""
        while not self._ended.is_set():
            if not select.select([self._master], [], [], 0.05)[0]:
                continue
            content = self.to_board(os.read(self._master, 4096))
            process = self._process
            try:
                if process is not None and process.stdin is not None:
                    process.stdin.write(content)
            except (OSError, ValueError):
                self._ended.wait(0.01)
