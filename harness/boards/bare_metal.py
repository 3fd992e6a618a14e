"""A processor without an operating system: Arm semihosting in qemu, or a serial port, takes the place of SSH.

Its disk is a folder of this machine, so files are copied, hashed and removed by this machine's programs.  A deployed
program is started in a processor of its own, with its words as the command line of semihosting, and ends with it.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.boards.identity import GUEST_MARK, PORT_MARK
from harness.boards.local import LocalBoard
from harness.boards.profile import BareMetal, Profile
from harness.boards.session import Completed
from harness.core.debian_packages import install_command
from harness.core.errors import ToolError

QEMU = "qemu-system-arm"
ARM = b"\x7fELF\x01"
"""The first bytes of a 32-bit ELF file; EM_ARM follows at byte 18."""
NOT_FOUND = 127
SEMIHOSTING = "enable=on,target=native"


class BareBoard(LocalBoard):
    """A session with a processor; `system` is the folder of the files that a kernel would show."""

    def __init__(self, name: str, processor: BareMetal, system: Path) -> None:
        super().__init__(name)
        self._processor = processor
        self._system = system
        self._begin_s = time.monotonic()

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program of the board in the emulator, or a command that works on its files, see `Board.run`."""
        program = Path(argv[0])
        if _is_arm(program):
            return self.execute(argv, timeout_s)
        if argv[0] == "uname":
            return Completed(NOT_FOUND, b"", b"the board has no operating system\n")
        uptime = self._system / "proc" / "uptime"
        uptime.parent.mkdir(exist_ok=True)
        uptime.write_text(f"{time.monotonic() - self._begin_s:.2f}\n")
        return super().run([self._of_board(word) for word in argv], timeout_s)

    def execute(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program on the processor, see `Board.run`."""
        done = self._run(command(self._processor, argv), argv[0], timeout_s, Path(argv[0]).parent)
        lines = done.stderr.splitlines(keepends=True)
        own = b"".join(line for line in lines if not line.startswith(f"{QEMU}: warning:".encode()))
        return dataclasses.replace(done, stderr=own)

    def _of_board(self, word: str) -> str:
        """Return the word of a command, with the board's own folder in place of this machine's /proc and /sys."""
        return f"{self._system}{word}" if word == "/" or word.startswith(("/proc/", "/sys/")) else word


def _is_arm(program: Path) -> bool:
    if not program.is_absolute() or not program.is_file():
        return False
    with program.open("rb") as file:
        header = file.read(20)
    return header.startswith(ARM) and header[18:20] == b"\x28\x00"


def command(processor: BareMetal, words: Sequence[str]) -> list[str]:
    """Return the command that runs a program; its `words` are lines, because semihosting joins arguments by spaces."""
    line = "\n".join(words).replace(",", ",,")
    loaded = _loaded(processor, words[0])
    return [*machine_options(processor), "-serial", "none", *loaded, "-semihosting-config", f"{SEMIHOSTING},arg={line}"]


def machine_options(processor: BareMetal) -> list[str]:
    """Return the command that starts a processor, without its serial port and its program."""
    return [
        *(QEMU, "-M", processor.machine or "none", "-cpu", processor.cpu),
        *("-nodefaults", "-display", "none", "-monitor", "none"),
    ]


def _loaded(processor: BareMetal, program: str) -> list[str]:
    """Return the options that load a program; the machine `none` is a processor with memory from address 0 on."""
    if processor.machine != "none":
        return ["-kernel", program]
    loader = f"loader,file={program.replace(',', ',,')},cpu-num=0"
    return ["-m", f"{processor.top >> 20}M", "-device", loader]


@contextmanager
def session(profile: Profile, root: Path) -> Iterator[BareBoard]:
    """Provide a session with the processor of `profile`, whose files lie below `root`; ToolError without qemu.

    Each program starts from a reset, and keeps nothing of the one before.
    """
    processor = profile.bare_metal
    if processor is None:
        raise TypeError(profile)
    if processor.port is None and shutil.which(QEMU) is None:
        raise ToolError(f"{QEMU} is not on this machine", f"run: {install_command(QEMU)}")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _system_files(profile.name, processor).items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        if processor.serial is None:
            board = BareBoard(profile.name, processor, Path(folder))
        else:
            from harness.boards.serial_board import SerialBoard  # with pySerial

            board = SerialBoard(profile.name, processor, Path(folder), root)
        with board:
            yield board


def _system_files(name: str, processor: BareMetal) -> dict[str, str]:
    """Return the files that a kernel would show, by their paths."""
    files = {
        "proc/meminfo": f"MemTotal: {processor.code.kib + processor.data.kib} kB",
        "proc/sys/kernel/random/boot_id": str(uuid.uuid4()),
    }
    if processor.port is not None:
        from harness.boards.serial_board import port_identity

        return files | {
            "proc/cmdline": f"{PORT_MARK}{processor.port}",
            "proc/cpuinfo": processor.cpu,
            "proc/device-tree/serial-number": port_identity(processor.port),
        }
    version = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=False).stdout
    link = SEMIHOSTING if processor.serial is None else "-serial pty"
    return files | {
        "proc/cmdline": f"{GUEST_MARK}{name} {' '.join(machine_options(processor))} {link}",
        "proc/cpuinfo": f"{processor.cpu}, emulated by {version.partition(chr(10))[0]}",
    }
