"""Terminal output: progress and notes on standard error, results on standard output."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from io import TextIOWrapper
from threading import Event, Thread
from typing import Any, TextIO, cast

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

from harness.core import strict_json
from harness.core.errors import HarnessError, notes_of
from harness.core.safe_io import visible

WIDE = 90  # columns of a terminal: a narrower one has no room for a bar and a rate


def _per_second(task: Task) -> float | None:
    """Return the average rate since the start; None before the first step.

    Unlike rich's own rate, it needs one step, not two, and steps may be minutes apart.
    """
    advanced = task.completed - task.fields["done"]
    return advanced / task.elapsed if advanced and task.elapsed else None


def _whole() -> Column:
    """Return a column that is never narrowed."""
    return Column(no_wrap=True)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        rate = _per_second(task)
        return Text(f"{rate:,.0f}/s" if rate else "-/s", style="progress.data.speed")


class _Remaining(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_remaining(task), style="progress.remaining")


SHOWN_FROM = 0.01
"""Part of the work from which on the remaining time is estimated: the first steps may be much slower than others."""


def _remaining(task: Task) -> str:
    """Return the remaining time as text; "" before SHOWN_FROM of the work is done."""
    rate, remaining = _per_second(task), task.remaining
    if rate is None or remaining is None or task.completed - task.fields["done"] < SHOWN_FROM * (task.total or 0):
        return ""
    return f"{timedelta(seconds=round(remaining / rate))} left"


LINE_INTERVAL_S = 60
"""Seconds between two lines of progress in a file or pipe, where a bar cannot move."""


@dataclass(frozen=True)
class ProgressBar:
    """A running progress bar."""

    progress: Progress
    task: Any

    def advance(self, amount: int) -> None:
        """Advance by `amount`."""
        self.progress.advance(self.task, amount)


@contextmanager
def _lines(bar: ProgressBar, note: Callable[[str], None]) -> Iterator[None]:
    """Pass the progress to `note` in regular intervals, until the block ends."""
    ended = Event()

    def write() -> None:
        while not ended.wait(LINE_INTERVAL_S):
            note(_line(bar.progress.tasks[0]))

    thread = Thread(target=write, name="lines of progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _line(task: Task) -> str:
    """Return the progress as text."""
    left = _remaining(task)
    done = f"{task.description}: {task.completed:,.0f} of {task.total or 0:,.0f} ({task.percentage:.0f} %)"
    return f"{done}, {left}" if left else done


class _Console(RichConsole):
    """Console that escapes control characters in text from boards and files."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError; rich would end the program with 1, as if something differed."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@dataclass(frozen=True)
class _LossyStream:
    """A stream of notes: the work continues if it can no longer be written."""

    stream: TextIO

    def write(self, text: str) -> int:
        """Write `text`; ignore errors of the stream."""
        try:
            return self.stream.write(text)
        except OSError:
            abandon(self.stream)
            return len(text)

    def flush(self) -> None:
        """Flush the stream; ignore its errors."""
        try:
            self.stream.flush()
        except OSError:
            abandon(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def abandon(*streams: TextIO) -> None:
    """Redirect broken streams to the null device, so that flushing their buffers raises no error."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _console(stream: TextIO) -> RichConsole:
    """Return a console on `stream`; a file or a pipe has no width, so tables get enough not to break their cells.

    Characters that the stream's encoding lacks, such as µ in some locales, are escaped as in Python.
    """
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    file = cast(TextIO, _LossyStream(stream)) if stream is sys.stderr else stream
    # Brackets and colons in a name are part of it, not markup.
    return _Console(file=file, highlight=False, markup=False, emoji=False, width=None if stream.isatty() else 140)


@dataclass(frozen=True)
class Console:
    """Output of a command; with `as_json`, standard output contains exactly one JSON document."""

    out: RichConsole
    err: RichConsole
    as_json: bool

    @classmethod
    def open(cls, *, as_json: bool) -> Console:
        """Return the process's own standard output and error."""
        return cls(_console(sys.stdout), _console(sys.stderr), as_json)

    @classmethod
    def silent(cls) -> Console:
        """Return a console that prints nothing."""
        nowhere = RichConsole(file=io.StringIO(), quiet=True)
        return cls(nowhere, nowhere, as_json=False)

    def note(self, text: str) -> None:
        """Print one line about the progress."""
        self.err.print(text, style="dim", soft_wrap=True)

    def show(self, *results: RenderableType) -> None:
        """Print results for a person; nothing with `as_json`."""
        if not self.as_json:
            self.out.print(*results, sep="\n", soft_wrap=True)

    def document(self, document: Mapping[str, Any]) -> None:
        """Print the result for a program; nothing without `as_json`."""
        if self.as_json:
            print(strict_json.text(document), flush=True)  # noqa: T201 - standard output is the interface

    def failure(self, error: HarnessError) -> None:
        """Print the error, its hint and its notes."""
        self.err.print(Text(f"error: {error.message}", style="bold red"), soft_wrap=True)
        if error.hint:
            self.err.print(Text(f"hint: {error.hint}"), soft_wrap=True)
        for note in notes_of(error):
            self.note(note)

    @contextmanager
    def progress(self, text: str, total: int, done: int = 0) -> Iterator[ProgressBar]:
        """Show a bar with rate, elapsed and remaining time on standard error; a spinner moves between two steps.

        Where standard error is no terminal, it gets a line a minute.
        """
        wide = self.err.width >= WIDE
        columns = (
            SpinnerColumn(table_column=_whole()),
            TextColumn("{task.description}", markup=False, table_column=Column()),
            *([BarColumn(bar_width=None)] if wide else []),
            MofNCompleteColumn(table_column=_whole()),
            *([_Rate(_whole())] if wide else []),
            TimeElapsedColumn(_whole()),
            _Remaining(_whole()),
        )
        is_file = not self.err.is_terminal
        with Progress(*columns, console=self.err, transient=True, disable=is_file) as progress:
            bar = ProgressBar(progress, progress.add_task(text, total=total, completed=done, done=done))
            with _lines(bar, self.note) if is_file else nullcontext():
                yield bar
