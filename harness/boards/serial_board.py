"""A microcontroller at a serial port, or qemu's serial port in its place; see `kernels/bare/serial/`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import serial
from elftools.elf.elffile import ELFFile
from serial.tools import list_ports

from harness.boards.bare_metal import BareBoard, machine_options
from harness.boards.profile import BareMetal, Serial
from harness.boards.serial_line import Files, Service, SilentError, WrongImageError
from harness.boards.session import Completed
from harness.core.errors import BoardError, ToolError

BOOT_S, EMULATED_BOOT_S = 5.0, 60.0
"""Time in which a program begins after a reset; the machine of an emulated board can be busy."""
COMMAND_S = 120.0
"""Time that a command of the profile may take."""
PTY = re.compile(rb"char device redirected to (\S+) ")
LAST_LINES = 5


class PortLine:
    """A serial port of this machine, or a URL of pySerial: `rfc2217://host:port`, `socket://host:port`."""

    def __init__(self, port: str, baud: int) -> None:
        self._name = port
        options: dict[str, Any] = {} if "://" in port else {"exclusive": True}
        try:
            self._port = serial.serial_for_url(port, baudrate=baud, **options)
        except (OSError, ValueError) as error:  # SerialException is an OSError
            raise BoardError(
                f"cannot open the serial port {port}: {error}",
                "check `port` of serial in boards.local.yaml, the rights of your user (group dialout), and that no "
                "other program uses the port",
            ) from error

    def receive(self, timeout_s: float) -> bytes:
        """Return what has come, see `Line.receive`."""
        with self._failures():
            self._port.timeout = timeout_s
            return bytes(self._port.read(1)) + bytes(self._port.read(self._port.in_waiting))

    def send(self, content: bytes) -> None:
        """Send bytes, see `Line.send`."""
        with self._failures():
            self._port.write(content)

    def discard(self) -> None:
        """Forget what came before a reset."""
        with self._failures():
            self._port.reset_input_buffer()

    def close(self) -> None:
        """Release the port."""
        self._port.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "check whether the board was unplugged, then use --resume"
            raise BoardError(f"the serial port {self._name} failed: {error}", hint) from error


class SerialBoard(BareBoard):
    """A session with a microcontroller; every program begins with a reset.  Files lie below `root` on this machine."""

    def __init__(self, name: str, processor: BareMetal, system: Path, root: Path) -> None:
        super().__init__(name, processor, system)
        if processor.serial is None:
            raise TypeError(processor)
        self._serial: Serial = processor.serial
        self._root = root
        self._line: PortLine | None = None

    def close(self) -> None:
        """End the session, see `Board.close`; release the port."""
        super().close()
        if self._line is not None:
            self._line.close()
            self._line = None

    def execute(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program on the board, see `Board.run`."""
        program = Path(argv[0])
        crc = image_crc(program)
        if self._serial.port is None:
            with self._emulated(program) as line:
                silent = f"{program} does not begin in qemu"
                return self._served(line, crc, argv, timeout_s, EMULATED_BOOT_S, silent)
        if self._line is None:
            self._line = PortLine(self._serial.port, self._serial.baud)
        self._line.discard()
        self._command("reset", program)
        try:
            return self._service(self._line, crc, argv).run(timeout_s, BOOT_S)
        except (SilentError, WrongImageError):
            self._flash(program)
        self._line.discard()
        self._command("reset", program)
        silent = "it was flashed, and no program answers"
        return self._served(self._line, crc, argv, timeout_s, BOOT_S, silent)

    def _served(
        self, line: PortLine, crc: int, argv: Sequence[str], timeout_s: float, boot_s: float, silent: str
    ) -> Completed:
        """Serve a program that must be the right one; BoardError, which says `silent`, if none begins in `boot_s`."""
        try:
            return self._service(line, crc, argv).run(timeout_s, boot_s)
        except SilentError as error:
            hint = "check registers, clock_hz, baud and setup of serial in the profile, and the cable"
            raise BoardError(f"board {self._name}: {silent}", hint) from error
        except WrongImageError as error:
            hint = "check the commands `flash` and `reset` of serial in the profile, and the board's memory"
            raise BoardError(f"board {self._name}: another program than {argv[0]} answers", hint) from error

    def _service(self, line: PortLine, crc: int, argv: Sequence[str]) -> Service:
        return Service(line, Files(self._root), crc, tuple(argv), self._name)

    def _flash(self, program: Path) -> None:
        if not self._serial.flash:
            raise BoardError(
                f"board {self._name} does not run {program}",
                "flash it, or write the command into the profile, for example flash: [openocd, -f, BOARD.cfg, -c, "
                "'program {program} verify exit'] under serial",
            )
        self._command("flash", program)

    def _command(self, name: str, program: Path) -> None:
        """Run a command of the profile; BoardError if it fails."""
        words = [word.replace("{program}", str(program)) for word in getattr(self._serial, name)]
        try:
            done = self._run(words, words[0], COMMAND_S)
        except BoardError as error:
            raise BoardError(f"board {self._name}: the command `{name}` failed: {error.message}", error.hint) from error
        if done.status:
            lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()[-LAST_LINES:]
            raise BoardError(
                f"board {self._name}: the command `{name}` ended with status {done.status}: {' | '.join(lines)}",
                f"try it: {shlex.join(words)}",
            )

    @contextmanager
    def _emulated(self, program: Path) -> Iterator[PortLine]:
        """Start a processor with the program; provide the other end of its serial port."""
        words = [*machine_options(self._processor), "-serial", "pty", "-kernel", str(program)]
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(f"cannot start {words[0]}: {error.strerror}", "install qemu-system-arm") from error
        self._running.add(process)
        try:
            line = PortLine(_pty(process), self._serial.baud)
            try:
                yield line
            finally:
                line.close()
        finally:
            process.kill()
            process.communicate()
            self._running.discard(process)


def _pty(process: subprocess.Popen[bytes]) -> str:
    """Return the pseudo-terminal that qemu names first; ToolError if it ends without."""
    output = process.stdout
    for line in iter(output.readline, b"") if output else ():
        if name := PTY.search(line):
            return name[1].decode()
    raise ToolError("qemu ended before it began", "try the profile's machine and cpu with qemu-system-arm -M help")


def port_identity(port: str) -> str:
    """Return the serial number of the USB adapter of a port, which most boards have built in, or the port's name."""
    for place in list_ports.comports():
        if place.device == os.path.realpath(port) and place.serial_number:
            return f"USB {place.serial_number}"
    return f"port {port}"


def image_crc(program: Path) -> int:
    """Return the CRC-32 of what is written to the board's memory for code, from its first address on."""
    with program.open("rb") as file:
        segments = [
            (segment["p_paddr"], segment.data())
            for segment in ELFFile(file).iter_segments()
            if segment["p_type"] == "PT_LOAD" and segment["p_filesz"]
        ]
    segments.sort()
    content = b""
    for address, data in segments:
        content += b"\0" * (address - segments[0][0] - len(content)) + data
    return zlib.crc32(content)
