"""Tables of a paper from their document: text, CSV, LaTeX and a page; a number has the mark of its source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod
from rich.text import Text

from benchmarks.tables.document import CellEntry, ColumnEntry, TableEntry, TablesDocument
from harness.core.document import Number
from harness.core.table import Table
from harness.report import cells
from harness.report.page import environment

PAGE = "tables.html"
TEMPLATE = Path(__file__).with_name("tables.html.jinja")
NONE = "-"
PREAMBLE = r"\usepackage{booktabs,longtable,textcomp}"


def reports(document: TablesDocument) -> dict[str, str]:
    """Return all reports, by the name of their file."""
    each = {f"{table.name}.csv": csv(table, document) for table in document.tables}
    return {PAGE: html(document), "tables.tex": latex(document), "tables.md": markdown(document)} | each


def text(value: Number | str | None) -> str:
    """Return a value for people: integers with separators, other numbers with six digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:#.6g}" if isinstance(value, float) else value or NONE


def csv(table: TableEntry, document: TablesDocument) -> str:
    """Return CSV: for each column with sources one with the values, and one with the sources or what is missing."""
    return cells.csv([dict(_fields(row, table, document)) for row in table.rows])


def _fields(row: Mapping[str, CellEntry], table: TableEntry, document: TablesDocument) -> Iterator[tuple[str, object]]:
    for column in table.columns:
        cell = row[column.key]
        yield column.key, cell.value
        if not is_label(column, table):
            yield f"{column.key}_source", document.sources[cell.source - 1] if cell.source else cell.missing


def is_label(column: ColumnEntry, table: TableEntry) -> bool:
    """Return whether no cell of a column has a source: its texts are names."""
    return all(row[column.key].source is None and not row[column.key].missing for row in table.rows)


def latex(document: TablesDocument) -> str:
    """Return longtables of the package booktabs, and the list of the sources."""
    lines = [f"% {cells.escape(document.paper)}", f"% Needs {PREAMBLE}"]
    for table in document.tables:
        lines += _longtable(table)
    items = [f"\\item {cells.escape(source)}" for source in document.sources]
    lines += ["\\begin{enumerate}", *items, "\\end{enumerate}"] if items else []
    return "\n".join(lines) + "\n"


def _longtable(table: TableEntry) -> Iterator[str]:
    yield "\n{\\footnotesize\\setlength{\\tabcolsep}{3pt}"
    yield f"\\begin{{longtable}}{{{''.join('l' if is_label(each, table) else 'r' for each in table.columns)}}}"
    yield f"\\caption{{{cells.escape(table.title)}. {cells.escape(table.note)}}}\\\\"
    yield "\\toprule"
    yield cells.row([_heading(column) for column in table.columns])
    yield "\\midrule\\endhead\n\\bottomrule\\endfoot"
    for row in table.rows:
        yield " & ".join(_latex_cell(row[column.key]) for column in table.columns) + " \\\\"
    yield "\\end{longtable}}"


def _latex_cell(cell: CellEntry) -> str:
    mark = f"\\textsuperscript{{{cell.source}}}" if cell.source else ""
    return (cells.escape(text(cell.value)) if cell.value is not None else "--") + mark


def _heading(column: ColumnEntry) -> str:
    return f"{column.heading} (paper)" if column.of_paper else column.heading


def html(document: TablesDocument) -> str:
    """Return one page without other files."""
    templates = environment().overlay()
    templates.filters = templates.filters | {"number": text}
    templates.tests = templates.tests | {"label_of": is_label}
    return templates.from_string(TEMPLATE.read_text(encoding="utf-8")).render(document=document)


def markdown(document: TablesDocument) -> str:
    """Return tables of Markdown for a page, without sources and without columns that no row has a value for."""
    return "\n".join(line for table in document.tables for line in _markdown_lines(table))


def _markdown_lines(table: TableEntry) -> Iterator[str]:
    shown = _with_values(table)
    yield f"## {table.title}\n\n{table.note}\n"
    yield _markdown_row(map(_heading, shown))
    yield _markdown_row("---" if is_label(column, table) else "---:" for column in shown)
    yield from (_markdown_row(text(row[column.key].value) for column in shown) for row in table.rows)
    yield ""


def _markdown_row(texts: Iterable[str]) -> str:
    escaped = (re.sub(r"([\\|<`*_])", r"\\\1", each) for each in texts)
    return f"| {' | '.join(escaped)} |"


def _with_values(table: TableEntry) -> list[ColumnEntry]:
    return [each for each in table.columns if any(row[each.key].value is not None for row in table.rows)]


def terminal(document: TablesDocument) -> Iterator[Table | Text]:
    """Yield the tables for a terminal, without columns that no row has a value for."""
    for table in document.tables:
        shown = _with_values(table)
        drawn = Table(title=table.title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for column in shown:
            style = "cyan" if column.of_paper else ""
            justify: JustifyMethod = "left" if is_label(column, table) else "right"
            drawn.add_column(_heading(column), justify=justify, style=style)
        for row in table.rows:
            drawn.add_row(*(text(row[column.key].value) for column in shown))
        yield drawn
