"""SHA-256 of files on a board, computed there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from harness.boards.session import COMMAND_TIMEOUT_S, Board, Completed
from harness.core.errors import BoardError

HASHED_BYTES_PER_S = 1_000_000  # slower boards have failed; an emulated one on a busy machine computes ten times that


def hashes_of(board: Board, paths: Sequence[PurePosixPath], size: int = 0) -> list[str]:
    """Compute on the board the SHA-256 of files that the program has just written; BoardError if one is missing.

    The timeout depends on their total `size` in bytes.
    """
    return require_present(hash_files(board, paths, size), paths)


def require_present(hashes: Mapping[str, str], paths: Sequence[PurePosixPath]) -> list[str]:
    """Return the hashes of these paths; BoardError if one is missing."""
    missing = [str(path) for path in paths if str(path) not in hashes]
    if missing:
        raise BoardError(
            f"the program ended well, but {missing[0]} is not on the board",
            "check for other users of the board and for a failing disk: its folder was removed",
        )
    return [hashes[str(path)] for path in paths]


def hash_timeout_s(size: int) -> float:
    """Return the timeout in seconds of hashing `size` bytes on the board."""
    return COMMAND_TIMEOUT_S + size / HASHED_BYTES_PER_S


def hash_files(board: Board, paths: Iterable[PurePosixPath], size: int) -> dict[str, str]:
    """Return SHA-256 of the files that exist, `size` bytes all together, by path, computed on the board."""
    done = board.run(["sha256sum", *map(str, paths)], hash_timeout_s(size))
    if done.status == 127:
        raise BoardError("the board has no sha256sum", "install coreutils or busybox on it")
    return parse_hashes(done)


def parse_hashes(done: Completed) -> dict[str, str]:
    """Return the hashes that sha256sum printed, by path."""
    found = (
        re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line) for line in done.stdout.decode(errors="replace").splitlines()
    )
    return {match[2]: match[1] for match in found if match}
