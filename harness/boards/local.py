"""The board `host`: this machine, without a network."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from harness.boards.session import (
    OVERDUE,
    PIECE_BYTES,
    Board,
    Completed,
    Deadline,
    Fetch,
    extend,
    overdue,
    replacing,
    wrong_size,
)
from harness.core.errors import BoardError

NAME = "host"
DISK = "check free space and rights of the cache and the runs folder"


class LocalBoard(Board):
    """The machine that the harness runs on, as a board: programs are children of this process, files are copied."""

    def __init__(self, name: str = NAME) -> None:
        self._name = name
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program, see `Board.run`; on timeout kill its whole process group."""
        return self._run(argv, argv[0], timeout_s)

    def _run(self, argv: Sequence[str], name: str, timeout_s: float, folder: Path | None = None) -> Completed:
        """Run a program in `folder`, by default this process's; messages call it `name`."""
        try:
            process = subprocess.Popen(
                argv,
                cwd=folder,
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
                return _wait(process, name, self._name, Deadline.after(timeout_s))
        finally:
            self._running.discard(process)  # its number may be another's from now on

    def put(self, source: Path, destination: PurePosixPath) -> None:
        """Copy a file, see `Board.put`."""
        try:
            with source.open("rb") as reader, replacing(Path(destination)) as writer:
                shutil.copyfileobj(reader, writer)
                os.fchmod(writer.fileno(), 0o755 if os.access(source, os.X_OK) else 0o644)
        except OSError as error:
            raise BoardError(f"cannot copy {source} to {destination} on {NAME}: {error.strerror}", DISK) from error

    def get_many(self, files: Sequence[Fetch]) -> None:
        """Copy files, see `Board.get_many`."""
        for fetch in files:
            _copy(fetch)

    def close(self) -> None:
        """End the session; kill a program that still runs for another thread."""
        for process in tuple(self._running):
            _kill(process)


def _wait(process: subprocess.Popen[bytes], name: str, board: str, deadline: Deadline) -> Completed:
    outputs = {pipe: bytearray() for pipe in (process.stdout, process.stderr) if pipe}
    try:
        _read(outputs, deadline)
        process.wait(deadline.remaining_s)
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        _kill(process)
        written = sum(map(len, outputs.values()))
        raise BoardError(overdue(name, board, deadline.timeout_s, written), OVERDUE) from error
    except BaseException:  # an interrupt of ours does not reach the program's own session
        _kill(process)
        raise
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Completed(status, *map(bytes, outputs.values()))


def _read(outputs: Mapping[IO[bytes], bytearray], deadline: Deadline) -> None:
    """Read all pipes to their ends; TimeoutError if they have not ended by the deadline."""
    with selectors.DefaultSelector() as selector:
        for pipe, output in outputs.items():
            selector.register(pipe, selectors.EVENT_READ, output)
        while selector.get_map():
            if deadline.passed:
                raise TimeoutError
            for key, _ in selector.select(deadline.remaining_s):
                piece = os.read(key.fd, PIECE_BYTES)
                extend(key.data, piece)
                if not piece:
                    selector.unregister(key.fileobj)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group, unless the process was waited for: its number may belong to another process."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _copy(fetch: Fetch) -> None:
    try:
        with Path(fetch.source).open("rb") as reader, replacing(fetch.destination) as writer:
            left = fetch.size
            while left and (piece := reader.read(min(left, PIECE_BYTES))):
                left -= writer.write(piece)
            if left or reader.read(1):
                raise wrong_size(NAME, fetch, fetch.size - left if left else fetch.size + 1)
    except OSError as error:
        raise BoardError(f"cannot copy {fetch.source} on {NAME}: {error.strerror}", DISK) from error
