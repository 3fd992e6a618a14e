"""Boards of files in a dictionary for tests of an installation, and the real commands of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from harness.boards.local import LocalBoard
from harness.boards.session import Board, Completed, Fetch


def said(text: str, status: int = 0) -> Completed:
    return Completed(status, f"{text}\n".encode() if text else b"", b"")


@dataclass
class RecordedBoard(Board):
    """Calls the method `_name` for a command; one without a method fails the test.  Faults are on demand."""

    files: dict[PurePosixPath, bytes]
    calls: list[str] = field(default_factory=list)
    faults: set[str] = field(default_factory=set)

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:  # noqa: ARG002
        self.calls.append(" ".join(argv))
        name, *arguments = argv
        answer: Completed = getattr(self, f"_{name}")(*arguments)
        return answer

    def get_many(self, files: Sequence[Fetch]) -> None:
        raise AssertionError(files)

    def close(self) -> None:
        self.calls.append("close")

    def _chmod(self, *_arguments: str) -> Completed:
        return said("")

    def _sync(self) -> Completed:
        return said("")


class ThisMachine(LocalBoard):
    """The real commands, but for the one that would wait for all disks of this machine."""

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        return said("") if argv[0] == "sync" else super().run(argv, timeout_s)
