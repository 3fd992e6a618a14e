"""Serve a program that reaches its files over a serial line: frames, requests, and the files that it may use.

`kernels/bare/serial/` is the other side: frame.h defines the frames, host.c the requests.
"""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from harness.boards.session import OVERDUE, Completed, Deadline, extend, overdue
from harness.core.errors import BoardError

PROTOCOL = 1
HELLO, COMMAND_LINE, OPEN, CLOSE, READ, WRITE, SEEK, EXIT, REPLY, REPEAT = b"HCOXRWSE=?"
STDOUT, STDERR, FIRST_FILE = 1, 2, 3
MODES = {1: "rb", 5: "wb"}
CONSOLE_MODES = {4: STDOUT, 8: STDERR}
CONSOLE = b":tt"
FAILED = 0xFFFFFFFF
LARGEST_PIECE_BYTES = 1024
SILENCE_S, LONGEST_SILENCE_S = 0.5, 30.0
"""Silence after which the program is asked for its last request again, each time after twice as long.

A frame may have been lost; or the program computes, and finds all that was asked when it has ended.
"""
MOST_OPEN = 4096
NUMBERS = struct.Struct("<II")
CRC = struct.Struct("<I")


class Line(Protocol):
    """A serial line; BoardError if it fails."""

    def receive(self, timeout_s: float) -> bytes:
        """Return the bytes that have come, or come within `timeout_s`; empty if none do."""
        ...

    def send(self, content: bytes) -> None:
        """Send bytes."""
        ...


class Frame(NamedTuple):
    """The content of a frame without its CRC."""

    kind: int
    sequence: int
    payload: bytes


def encode(frame: Frame) -> bytes:
    """Return a frame as it is sent, see kernels/bare/serial/frame.h."""
    content = bytes([frame.kind, frame.sequence]) + frame.payload
    content += CRC.pack(zlib.crc32(content))
    encoded = bytearray(b"\0")
    for run in content.split(b"\0"):
        while len(run) >= 254:
            encoded += b"\xff" + run[:254]
            run = run[254:]  # noqa: PLW2901
        encoded += bytes([len(run) + 1]) + run
    return bytes(encoded + b"\0")


def decode(encoded: bytes) -> Frame | None:
    """Return the frame between two zero bytes; None if it is damaged."""
    content = bytearray()
    position = 0
    while position < len(encoded):
        length = encoded[position]
        run = encoded[position + 1 : position + length]
        position += length
        if position > len(encoded):
            return None
        content += run
        if length < 255 and position < len(encoded):
            content.append(0)
    if len(content) < 2 + CRC.size or zlib.crc32(content[: -CRC.size]) != CRC.unpack(content[-CRC.size :])[0]:
        return None
    return Frame(content[0], content[1], bytes(content[2 : -CRC.size]))


class Frames:
    """The frames that come over a line, from the first zero byte on."""

    def __init__(self) -> None:
        self._partial: bytearray | None = None

    def feed(self, content: bytes) -> Iterator[Frame | None]:
        """Yield the frames that these bytes complete; None for a damaged one."""
        first, *others = content.split(b"\0")
        if self._partial is not None:
            self._partial += first
        for following in others:
            if self._partial:
                yield decode(bytes(self._partial))
            self._partial = bytearray(following)
        if self._partial is not None and len(self._partial) > 4 * LARGEST_PIECE_BYTES:
            self._partial = None  # no frame is as long


@dataclass
class Files:
    """The files of `root` that a program has opened, and what it has written to its console."""

    root: Path
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    _opened: dict[int, BinaryIO] = field(default_factory=dict)
    _next: int = FIRST_FILE

    def open(self, path: bytes, mode: int) -> int:
        """Return the handle of a file; OSError if it cannot be opened or is not below `root`."""
        if path == CONSOLE and mode in CONSOLE_MODES:
            return CONSOLE_MODES[mode]
        place = Path(path.decode(errors="surrogateescape"))
        if mode not in MODES or not place.resolve().is_relative_to(self.root.resolve()):
            raise OSError(errno.EACCES, "not a file of the board")
        if len(self._opened) >= MOST_OPEN:
            raise OSError(errno.EMFILE, "too many files")
        handle, self._next = self._next, self._next + 1
        self._opened[handle] = place.open(MODES[mode])  # type: ignore[assignment]
        return handle

    def close(self, handle: int) -> None:
        """Close a file; OSError if it is not open or its content cannot be written."""
        if handle not in {STDOUT, STDERR}:
            self._file(handle).close()
            del self._opened[handle]

    def read(self, handle: int, size: int) -> bytes:
        """Return at most `size` bytes; OSError if the file is not open."""
        return self._file(handle).read(size)

    def write(self, handle: int, content: bytes) -> int:
        """Write all bytes; return how many."""
        if handle in {STDOUT, STDERR}:
            extend(self.stdout if handle == STDOUT else self.stderr, content)
            return len(content)
        return self._file(handle).write(content)

    def seek(self, handle: int, position: int) -> None:
        """Move the position of a file."""
        self._file(handle).seek(position)

    def close_all(self) -> None:
        """Close all files."""
        with ExitStack() as stack:
            for file in self._opened.values():
                stack.callback(file.close)
            self._opened.clear()

    def _file(self, handle: int) -> BinaryIO:
        if handle not in self._opened:
            raise OSError(errno.EBADF, "the file is not open")
        return self._opened[handle]


class WrongImageError(Exception):
    """Another program answers than the one that is meant."""


class SilentError(Exception):
    """No program answers."""


class Service:
    """Serves one execution of a program, from its reset to its exit.

    `image_crc` is the CRC-32 of the program's image, by which it is recognised; `words` is its command line.
    """

    def __init__(self, line: Line, files: Files, image_crc: int, words: tuple[str, ...], board: str) -> None:
        self._line, self._files, self._image_crc, self._board = line, files, image_crc, board
        self._command_line = "\n".join(words).encode()
        self._program = words[0]
        self._frames = Frames()
        self._last: Frame | None = None
        self._reply = b""
        self._status: int | None = None
        self._silence_s = SILENCE_S

    def run(self, timeout_s: float, boot_s: float) -> Completed:
        """Serve the program until it ends.

        SilentError if it does not begin within `boot_s`, WrongImageError if another one begins.  BoardError if it is
        reset meanwhile or does not end within `timeout_s`.
        """
        begin, deadline = Deadline.after(boot_s), Deadline.after(timeout_s)
        try:
            while self._status is None:
                if self._last is None:
                    if begin.passed:
                        raise SilentError
                    self._silence_s = SILENCE_S
                if deadline.passed:
                    written = len(self._files.stdout) + len(self._files.stderr)
                    raise BoardError(overdue(self._program, self._board, timeout_s, written), OVERDUE)
                self._receive(min(self._silence_s, deadline.remaining_s))
        finally:
            self._files.close_all()
        return Completed(self._status, bytes(self._files.stdout), bytes(self._files.stderr))

    def _receive(self, timeout_s: float) -> None:
        content = self._line.receive(timeout_s)
        if content:
            self._silence_s = SILENCE_S
        else:
            self._silence_s = min(2 * self._silence_s, LONGEST_SILENCE_S)
            self._ask_again()
        for frame in self._frames.feed(content):
            if frame is not None:
                self._answer(frame)
            elif self._last is not None:  # before the first request, what comes may be that of a boot loader
                self._ask_again()

    def _ask_again(self) -> None:
        self._line.send(encode(Frame(REPEAT, 0, b"")))

    def _answer(self, frame: Frame) -> None:
        """Answer a request; one that was answered gets the same reply, and is not executed again."""
        if frame != self._last:
            self._require_next(frame)
            self._reply = encode(Frame(REPLY, frame.sequence, self._execute(frame)))
            self._last = frame
        self._line.send(self._reply)

    def _require_next(self, frame: Frame) -> None:
        if frame.kind == HELLO:
            if self._last is not None:
                raise BoardError(
                    f"board {self._board} was reset while {self._program} ran",
                    "look for the reason there (power supply, watchdog, debugger), then use --resume",
                )
            return
        if self._last is None:
            raise BoardError(
                f"a program runs already on board {self._board}, and was not reset",
                "check the command `reset` of serial in its profile",
            )
        expected = 1 if self._last.sequence == 255 else self._last.sequence + 1
        if frame.sequence != expected:
            raise BoardError(
                f"board {self._board}: request {frame.sequence} came, and request {expected} was due",
                "check that nothing else uses the serial port",
            )

    def _execute(self, frame: Frame) -> bytes:
        """Execute a request; return the payload of the reply: a number, the number of an error, data."""
        if len(frame.payload) < NUMBERS.size:
            raise BoardError(f"board {self._board} sent a request of {len(frame.payload)} bytes", "flash it anew")
        first, second = NUMBERS.unpack_from(frame.payload)
        try:
            number, content = self._request(frame.kind, first, second, frame.payload[NUMBERS.size :])
        except OSError as error:
            return NUMBERS.pack(FAILED, error.errno or errno.EIO)
        return NUMBERS.pack(number, 0) + content

    def _request(self, kind: int, first: int, second: int, content: bytes) -> tuple[int, bytes]:
        """Return the number and the data of a reply; OSError if the request fails."""
        size = min(second, LARGEST_PIECE_BYTES)
        if kind == HELLO:
            if first != PROTOCOL or second != self._image_crc:
                raise WrongImageError
        elif kind == COMMAND_LINE:
            return 0, self._command_line[first : first + size]
        elif kind == OPEN:
            return self._files.open(content, first), b""
        elif kind == CLOSE:
            self._files.close(first)
        elif kind == READ:
            return 0, self._files.read(first, size)
        elif kind == WRITE:
            return self._files.write(first, content), b""
        elif kind == SEEK:
            self._files.seek(first, second)
        elif kind == EXIT:
            self._status = first & 0xFF
        else:
            raise OSError(errno.ENOSYS, "an unknown request")
        return 0, b""
