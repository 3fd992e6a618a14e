"""Tables for terminals of any width."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column
from rich.table import Table as RichTable

WORD = re.compile(r"[-+±(]?[0-9]\S* (?:ns|µs|ms|s|%|bytes|[KMG]iB)(?!\S)|\S+")  # a number and its unit stay together
NUMBER = re.compile(r"[-+±(]?[0-9]\S{0,39}(?: \S+)?")  # or a name that starts with a date
SHORTEST_TEXT = 8  # characters: the minimum width of a column with words, if names do not fit
LONGEST_NAME = 40  # characters of a name that is not broken
UNLIMITED = 100_000
STYLE: Mapping[str, Any] = {"title_justify": "left", "title_style": "bold", "box": SIMPLE_HEAD, "pad_edge": False}


class Table(RichTable):
    """A table that folds its text between words on a narrow terminal, and never cuts a number.

    Columns in `optional` are left out, the last one first, until the table fits without folded cells.  If the longest
    names and numbers of the others do not fit into the terminal, each row becomes a record: a line for each cell,
    behind the heading of its column.
    """

    def __init__(
        self, *headings: str, right: Collection[str] = (), optional: Sequence[str] = (), **options: Any
    ) -> None:
        """Take the headings, those of numbers also in `right`, and options of `rich.table.Table`."""
        super().__init__(**{**STYLE, **options})
        self.optional = tuple(optional)
        for heading in headings:
            self.add_column(heading, justify="right" if heading in right else "left")

    def add_column(self, *arguments: Any, **options: Any) -> None:
        """Add a column, see `rich.table.Table.add_column`; its text is folded, not cut."""
        super().add_column(*arguments, **{"overflow": "fold", **options})

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        """Yield the lines of the table, with columns that are as wide as their numbers."""
        limit = self.width or options.max_width
        if not self.columns or _measured(self, console, options) <= limit:
            yield from super().__rich_console__(console, options)
            return
        if self.optional:
            yield from self._without(self.optional[-1]).__rich_console__(console, options)
            return
        narrow = copy.copy(self)
        narrow.padding, narrow.width, narrow.show_edge = (0, 1 if self.box else 2, 0, 0), None, False
        narrow.columns = [copy.copy(column) for column in self.columns]
        natural = [max(map(cell_len, _lines(column)), default=0) for column in self.columns]
        margins = _measured(narrow, console, options) - sum(natural)
        least = [_least(column, LONGEST_NAME) for column in self.columns]
        if sum(least) > limit - margins and len(self.columns) > 2 and self.show_header:
            yield from self._records().__rich_console__(console, options)
            return
        if sum(least) > limit - margins:
            least = [_least(column, SHORTEST_TEXT) for column in self.columns]
        widths = fitted(natural, least, limit - margins)
        for column, width in zip(narrow.columns, widths, strict=True):
            column.width, column.no_wrap, column.overflow = width, False, "fold"
        yield from RichTable.__rich_console__(narrow, console, options.update(max_width=sum(widths) + margins))

    def _without(self, heading: str) -> Table:
        """Return the table without an optional column."""
        others = copy.copy(self)
        others.optional = tuple(name for name in self.optional if name != heading)
        columns = [column for column in self.columns if column.header != heading]
        others.columns = [dataclasses.replace(column, _index=index) for index, column in enumerate(columns)]
        return others

    def _records(self) -> Table:
        """Return a table with a line for each cell that is not empty, and an empty line behind each row."""
        records = Table(title=self.title, title_style=self.title_style, box=None, show_header=False)
        for row in zip(*(column.cells for column in self.columns), strict=True):
            for column, cell in zip(self.columns, row, strict=True):
                if str(cell):
                    records.add_row(" ".join(str(column.header).split()), cell)
            records.add_row("", "")
        return records


def _measured(table: RichTable, console: RichConsole, options: ConsoleOptions) -> int:
    """Return the width of a table without a limit."""
    return Measurement.get(console, options.update(max_width=UNLIMITED), table).maximum


def fitted(natural: Sequence[int], least: Sequence[int], budget: int) -> list[int]:
    """Return column widths with a sum of at most `budget`: the widest are narrowed first, each at least `least`.

    The sum exceeds `budget` if the sum of `least` does.
    """
    level = max(natural)
    while level and sum(_width(*column, level) for column in zip(natural, least, strict=True)) > budget:
        level -= 1
    return [_width(*column, level) for column in zip(natural, least, strict=True)]


def _width(natural: int, least: int, level: int) -> int:
    return min(natural, max(least, level))


def _lines(column: Column) -> Iterator[str]:
    for cell in (column.header, *column.cells):
        yield from str(cell).splitlines()


def _least(column: Column, longest: int) -> int:
    """Return the width of the longest number, or of the longest word up to `longest`."""
    lengths = (
        cell_len(word) if NUMBER.fullmatch(word) else min(cell_len(word), longest)
        for line in _lines(column)
        for word in WORD.findall(line)
    )
    return max(lengths, default=1)
