"""The board `host`: this machine, without a network."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from harness.board.session import OVERDUE, Board, Completed, Fetch, replacing, wrong_size
from harness.errors import BoardError

NAME = "host"
DISK = "check free space and rights of the cache and the runs folder"


class LocalBoard(Board):
    """The machine that the harness runs on, as a board: programs are children of this process, files are copied."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """As `Board.run`; on the deadline the program's whole process group is killed."""
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            status = 127 if isinstance(error, FileNotFoundError) else 126
            return Completed(status, b"", f"{argv[0]}: {error.strerror}\n".encode())
        self._running.add(process)
        try:
            with process:
                return _wait(process, timeout_s)
        except subprocess.TimeoutExpired as error:
            raise BoardError(
                f"{argv[0]} on {NAME} did not end within {timeout_s:g} s and was killed", OVERDUE
            ) from error
        finally:
            self._running.discard(process)  # its number may be another's from now on

    def put(self, source: Path, destination: PurePosixPath) -> None:
        """As `Board.put`."""
        try:
            with source.open("rb") as reader, replacing(Path(destination)) as writer:
                shutil.copyfileobj(reader, writer)
                os.fchmod(writer.fileno(), 0o755 if os.access(source, os.X_OK) else 0o644)
        except OSError as error:
            raise BoardError(f"cannot copy {source} to {destination} on {NAME}: {error.strerror}", DISK) from error

    def get_many(self, files: Sequence[Fetch]) -> None:
        """As `Board.get_many`."""
        for fetch in files:
            _copy(fetch)

    def close(self) -> None:
        """As `Board.close`; a program that another thread still waits for is killed."""
        for process in tuple(self._running):
            _kill(process)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> Completed:
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except BaseException:  # an interrupt of ours does not reach the program's own session
        _kill(process)
        raise
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Completed(status, stdout, stderr)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Its whole process group; one that was waited for has ended, and its number may be another's."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _copy(fetch: Fetch) -> None:
    try:
        with Path(fetch.source).open("rb") as reader, replacing(fetch.destination) as writer:
            shutil.copyfileobj(reader, writer)
            if writer.tell() != fetch.size:
                raise wrong_size(NAME, fetch, writer.tell())
    except OSError as error:
        raise BoardError(f"cannot copy {fetch.source} on {NAME}: {error.strerror}", DISK) from error
