"""Lock of a board during its use: all sessions end when the lock is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from harness.boards.session import Board, Completed, Fetch
from harness.core.errors import BoardError


class BoardBusy(BoardError):
    """A timeout: another user, named by `in_use`, did not release the board within `wait_s` seconds."""

    def __init__(self, in_use: str, wait_s: float, hint: str) -> None:
        super().__init__(f"{in_use}; not free after {wait_s:g} s", hint)
        self.in_use = in_use

    @property
    def details(self) -> dict[str, str]:
        """Return the holder of the board."""
        return {"in_use": self.in_use}


class BoardLost(BoardError):
    """A lost lock: this process must not use the board any more."""


class Held:
    """The right to use a board; `check` raises BoardLost when it has ended.  `rank` is its place in the queue."""

    def __init__(self, check: Callable[[], None], rank: int = 0) -> None:
        self._checks = [check]
        self.rank = rank
        self._lock = threading.Lock()
        self._sessions: list[Board] = []
        self._lost: BoardLost | None = None

    def check(self) -> None:
        """Raise BoardLost, always the same, after another user has taken the board."""
        with self._lock:
            try:
                if self._lost is None:
                    for check in self._checks:
                        check()
            except BoardLost as lost:
                self._lost = lost
        if self._lost is not None:
            for session in self._sessions:
                session.close()
            raise self._lost

    @contextmanager
    def also(self, check: Callable[[], None]) -> Iterator[None]:
        """Call `check` with every check of the lock during the block; it raises BoardLost."""
        with self._lock:
            self._checks.append(check)
        try:
            with self.kept():
                yield
        finally:
            with self._lock:
                self._checks.remove(check)

    def is_ours(self) -> bool:
        """Return whether this process still has the board; close its sessions if not."""
        try:
            self.check()
        except BoardLost:
            return False
        return True

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Raise BoardLost instead of any other exception of the block, if the board was lost during it."""
        self.check()
        try:
            yield
        except Exception:
            self.check()
            raise
        self.check()

    def guard(self, board: Board) -> Board:
        """Return the session while the board is locked; afterwards each of its calls raises BoardLost."""
        self._sessions.append(board)
        return _Guarded(board, self)


def right_to(session: Board) -> Held | None:
    """Return the lock that a session ends with; None without a guard."""
    return session.held if isinstance(session, _Guarded) else None


class _Guarded(Board):
    def __init__(self, board: Board, held: Held) -> None:
        self._board = board
        self.held = held

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        with self.held.kept():
            return self._board.run(argv, timeout_s)

    def put(self, source: Path, destination: PurePosixPath) -> None:
        with self.held.kept():
            self._board.put(source, destination)

    def get_many(self, files: Sequence[Fetch]) -> None:
        with self.held.kept():
            self._board.get_many(files)

    def close(self) -> None:
        self._board.close()
