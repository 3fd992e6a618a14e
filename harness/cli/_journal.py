"""Log and results of a command that works in named steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.boards.connect import reach
from harness.boards.locks import LOCK_WAIT_S, hold
from harness.boards.locks.lease_guard import Held
from harness.boards.profile import Profile
from harness.boards.session import Board
from harness.boards.workspace import Workspace
from harness.core.console import Console
from harness.core.errors import HarnessError
from harness.runs import folder as run_folder


@dataclass
class Journal:
    """The steps of a command, their log and their results; `steps` are the names of all steps in order."""

    console: Console
    log: Path
    steps: tuple[str, ...]
    done: dict[str, str] = field(default_factory=dict)
    held: Held | None = None

    @classmethod
    def open(cls, console: Console, profile: Profile, workspace: Workspace, steps: tuple[str, ...]) -> Journal:
        """Return a journal whose log is a new file in the cache."""
        folder = workspace.cache / "firmware"
        folder.mkdir(parents=True, exist_ok=True)
        return cls(console, folder / f"{run_folder.now():%Y%m%dT%H%M%S}_{profile.name}.log", steps)

    def note(self, text: str) -> None:
        """Print a line and write it to the log."""
        self.console.note(text)
        self._keep(text)

    def _keep(self, text: str) -> None:
        """Write a line to the log."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{run_folder.now():%Y-%m-%dT%H:%M:%SZ} {text}\n")

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[None]:
        """Run one of `steps`; its result is stored in `done`."""
        self.note(f"[{self.steps.index(name) + 1}/{len(self.steps)}] {name}: {what}")
        try:
            yield
        except HarnessError as error:
            self._keep(f"step {name!r} failed: {error.message}")  # the command prints the error when it ends
            raise

    def result(self, name: str, text: str) -> None:
        """Record the result of a step."""
        self.done[name] = text
        self.note(f"  {text}")

    def planned(self, texts: Sequence[str]) -> None:
        """Show the effects of the steps after the first without running them, one text per step."""
        for name, text in zip(self.steps[1:], texts, strict=True):
            self.result(name, f"would be: {text}")

    @contextmanager
    def session(self, profile: Profile, workspace: Workspace) -> Iterator[Board]:
        """Open a session with the board; it ends when the lock of the board is lost."""
        with reach(profile, workspace.cache, self.note) as connection:
            yield self.held.guard(connection.board) if self.held else connection.board

    @contextmanager
    def locked(self, profile: Profile, workspace: Workspace) -> Iterator[None]:
        """Hold the lock of the board during the block."""
        with hold(profile, workspace.locks(profile), "firmware", LOCK_WAIT_S, self.note) as held:
            self.held = held
            try:
                yield
            finally:
                self.held = None

    @property
    def results(self) -> str:
        """Return all results, one line each."""
        return "\n".join(f"{name}: {text}" for name, text in self.done.items())
