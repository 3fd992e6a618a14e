"""Commands and copies on a board for the installers of targets; a failure is a BoardError that names the command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from harness.boards.hashes import hashes_of
from harness.boards.session import COMMAND_TIMEOUT_S, Board, Completed
from harness.core.errors import BoardError


def succeeds(board: Board, *argv: str) -> bool:
    """Run a command; return whether its exit status is 0."""
    return board.run(argv, COMMAND_TIMEOUT_S).status == 0


def checked(board: Board, *argv: str) -> str:
    """Run a command and return its standard output; raise BoardError if it fails."""
    done = board.run(argv, COMMAND_TIMEOUT_S)
    if done.status != 0:
        raise BoardError(f"{' '.join(argv)} failed on the board: {complaint(done)}")
    return done.stdout.decode(errors="replace").strip()


def reply(board: Board, *argv: str) -> str:
    """Run a command and return its standard output; raise BoardError if it fails or prints nothing."""
    printed = checked(board, *argv)
    if not printed:
        raise BoardError(f"{' '.join(argv)} on the board said nothing")
    return printed


def output(done: Completed) -> str:
    """Return all output of a command."""
    return (done.stdout + done.stderr).decode(errors="replace").strip()


def complaint(done: Completed) -> str:
    """Return the output of a failed command, or its exit status if the output is empty."""
    return output(done) or f"exit status {done.status}"


def require_copied(board: Board, sha256: Mapping[PurePosixPath, str], size: int = 0) -> None:
    """Raise BoardError unless the copies on the board have these hashes; `size` is their number of bytes."""
    found = hashes_of(board, list(sha256), size)
    for (path, expected), copied in zip(sha256.items(), found, strict=True):
        if copied != expected:
            raise BoardError(
                f"{path} on the board differs from the file that was sent: SHA-256 {copied[:16]}, not {expected[:16]}",
                "nothing was replaced; check the board's disk and try again",
            )
