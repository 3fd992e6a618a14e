"""The interface of a session with a board, and its value types."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, NamedTuple, Protocol, Self

from harness.core.errors import BoardError

OVERDUE = "check whether it hangs or the board is too slow for the profile's timeout_s"
PIECE_BYTES = 1 << 20
COMMAND_TIMEOUT_S = 60.0
OUTPUT_LIMIT_BYTES = 64 << 20
"""The most that a program may write to standard output, and to standard error."""


@dataclass(frozen=True)
class Completed:
    """An ended program of the board, with its output.

    `status` is the exit status as in a shell: 126 not executable, 127 not found, 128 + N killed by signal N.
    """

    status: int
    stdout: bytes
    stderr: bytes


class Fetch(NamedTuple):
    """A file wanted from the board: exactly `size` bytes of `source`, to become `destination`."""

    source: PurePosixPath
    destination: Path
    size: int


@dataclass(frozen=True)
class Deadline:
    """A point on the monotonic clock, `timeout_s` seconds after it was set."""

    timeout_s: float
    at_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Self:
        """Return the deadline `timeout_s` seconds from now."""
        return cls(timeout_s, time.monotonic() + timeout_s)

    @property
    def remaining_s(self) -> float:
        """Return seconds left, 0.0 when the deadline has passed."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def passed(self) -> bool:
        """Return whether no time is left."""
        return self.remaining_s == 0.0


class Board(Protocol):
    """An open session with a board; leaving its `with` block closes it.

    The board is not trusted: its data is checked against the request.  Every call ends:
    with its result, with `BoardError` (the board or a program on it failed) or with `ConnectionFailed`
    (the connection failed; the session has then ended, and each later call raises the same failure).
    """

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program to its end; a non-zero exit status is a result, not an error.

        It runs without a shell and with empty standard input.  After `timeout_s` seconds, it is killed with all its
        descendants, and BoardError is raised.
        """
        ...

    def put(self, source: Path, destination: PurePosixPath) -> None:
        """Copy a file to the board, where its folder exists.

        It appears under its name only when complete, and is executable there if the source is.
        """
        ...

    def get_many(self, files: Sequence[Fetch]) -> None:
        """Copy files from the board in one go; the folders of their destinations exist.

        A file appears under its name only when complete.  A missing file or an unexpected length raises BoardError;
        the files before it have then been copied.
        """
        ...

    def get(self, source: PurePosixPath, destination: Path, size: int) -> None:
        """Copy one file of exactly `size` bytes from the board, as `get_many`."""
        self.get_many([Fetch(source, destination, size)])

    def close(self) -> None:
        """End the session; closing twice does no harm."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


Connect = Callable[[], AbstractContextManager[Board]]
"""Opens a session."""


@contextmanager
def replacing(destination: Path) -> Iterator[BinaryIO]:
    """Provide a file that becomes `destination` if the block succeeds and is removed if it fails."""
    part = destination.with_name(f"{destination.name}.part")
    try:
        with part.open("w+b") as file:
            yield file
        part.replace(destination)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def extend(output: bytearray, piece: bytes) -> None:
    """Append what a program has written; BoardError beyond `OUTPUT_LIMIT_BYTES`."""
    output += piece
    if len(output) > OUTPUT_LIMIT_BYTES:
        raise BoardError(
            f"a program wrote more than {OUTPUT_LIMIT_BYTES >> 20} MiB to its standard output or error",
            "it is not the deployed program, or the board's startup files print without end",
        )


def overdue(program: str, board: str, timeout_s: float, written: int, end: str = "was killed") -> str:
    """Describe a program that exceeded `timeout_s`, with the number of bytes `written` and how it ended (`end`)."""
    output = f"; {written:,} bytes of its output came" if written else ""
    return f"{program} on {board} did not end within {round(timeout_s, 1):g} s and {end}{output}"


def wrong_size(board: str, fetch: Fetch, size: int) -> BoardError:
    """Return the error for a file of which `size` bytes came, too few or too many."""
    hint = "the program that writes it was stopped, is still writing, or is not the one that was deployed"
    if size > fetch.size:
        return BoardError(f"{fetch.source} on {board} has more than the {fetch.size:,} bytes that were expected", hint)
    missing = fetch.size - size
    return BoardError(
        f"{fetch.source} on {board}: {size:,} of {fetch.size:,} bytes arrived, "
        f"{missing:,} {'is' if missing == 1 else 'are'} missing",
        hint,
    )
