"""The progress of a running night: a line per board on a terminal, otherwise a line per event."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.applications.nightly.process_pool import HEADER, last_lines
from harness.applications.nightly.schedule import BoardJob, JobKind
from harness.core.console import Console
from harness.core.safe_io import clean
from harness.core.text import duration, retries
from harness.runs.history.night_record import Entry, Result

DOING = {JobKind.CHECK: "health check", JobKind.CYCLE: "power cycle"}


@dataclass
class Watch:
    """The progress of a night; `busy` has each board's activity, its start in seconds since 1970, and its log.

    `taken` maps other boards to their current holders, `announced` maps boards to the holders shown last.
    """

    console: Console
    total: int
    ended: int = 0
    busy: dict[str, tuple[str, float, Path]] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    announced: dict[str, str] = field(default_factory=dict)

    def job_started(self, job: BoardJob, log: Path, now_s: float) -> None:
        """Note the start of a command."""
        what = DOING.get(job.kind, job.entry.key)
        self.busy = {**self.busy, job.board: (what, now_s, log)}
        if job.kind is not JobKind.CHECK:
            self.announced.pop(job.board, None)
            if not self.console.err.is_terminal:
                self.console.note(clean(f"{job.board}: {what} begins"))

    def job_ended(self, job: BoardJob, message: str) -> None:
        """Note the end of a job; show only failed checks and cycles, because other results are shown elsewhere."""
        self.busy = {board: doing for board, doing in self.busy.items() if board != job.board}
        if job.kind is not JobKind.ATTEMPT and message not in {"", "healthy"}:
            self.console.note(clean(f"{job.board}: {DOING[job.kind]}: {message}"))

    def concluded(self, entry: Entry, result: Result) -> None:
        """Note the end of an entry."""
        self.ended += 1
        tried = f" after {retries(result.retries)}" if result.retries else ""
        wrong = "" if result.ending.outcome is entry.expect else f", NOT {entry.expect} as expected"
        ending = f"{result.ending}{tried}{wrong}: {result.ending.reason}"
        self.console.note(clean(f"[{self.ended}/{self.total}] {entry.key}: {ending}"))

    def awaited(self, taken: Mapping[str, str]) -> None:
        """Note the boards that other users have, with their holders; show only new ones."""
        for board, who in taken.items():
            if self.announced.get(board) != who:
                self.console.note(clean(f"{board}: {who}: its entries wait"))
        self.announced |= taken
        self.taken = taken

    def table(self) -> Table:
        """Return a line per board in use, by the night or by another user, and the progress of the night."""
        table = Table.grid(padding=(0, 2))
        for board, (what, began_s, log) in sorted(self.busy.items()):
            _add_row(table, board, clean(what), duration(max(0.0, round(time.time() - began_s))), _said(log))
        for board, who in sorted(self.taken.items()):
            _add_row(table, board, "waits", "", clean(who))
        table.add_row(Text(f"{self.ended}/{self.total}", style="dim"))
        return table


def _add_row(table: Table, *cells: str) -> None:
    table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))


def _said(log: Path) -> str:
    """Return the last line of output of a command; an empty text if there is none."""
    last = "".join(last_lines(log)[-1:])
    return "" if last.startswith(HEADER) else last


@contextmanager
def watch(console: Console, total: int, ended: int) -> Iterator[Watch]:
    """Show the progress of `total` entries, of which `ended` are finished."""
    watcher = Watch(console, total, ended)
    if not console.err.is_terminal:
        yield watcher
        return
    with Live(get_renderable=watcher.table, console=console.err, refresh_per_second=2, transient=True):
        yield watcher
