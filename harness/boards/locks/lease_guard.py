"""Lock of a board during its use: all sessions end when the lock is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from harness.boards.session import Board, Completed, Fetch
from harness.core.errors import BoardError


class BoardBusy(BoardError):
    """Another user has the board and did not release it within `wait_s` seconds; `in_use` names that user."""

    def __init__(self, in_use: str, wait_s: float, hint: str) -> None:
        super().__init__(f"{in_use}; not free after {wait_s:g} s", hint)
        self.in_use = in_use

    @property
    def details(self) -> dict[str, str]:
        """Return who has the board."""
        return {"in_use": self.in_use}


class BoardLost(BoardError):
    """The lock of the board was lost; this process must not use the board any more."""


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
        """Raise BoardLost in place of what ends the block, if the board was lost by then."""
        self.check()
        try:
            yield
        except Exception:
            self.check()
            raise
        self.check()

    def guard(self, board: Board) -> Board:
        """Return the session, for as long as the board is held: each of its calls raises BoardLost afterwards."""
        self._sessions.append(board)
        return _Guarded(board, self)


def right_to(session: Board) -> Held | None:
    """Return the right that a session ends with; None if nothing guards it."""
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
