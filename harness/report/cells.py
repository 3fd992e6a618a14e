"""Cells of tables: CSV that a spreadsheet does not evaluate, rows of LaTeX."""

from __future__ import annotations

import csv as csv_format
import io
from collections.abc import Mapping, Sequence
from typing import Any

# A spreadsheet evaluates a cell that begins with one of these characters.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': "''",
        "`": r"\textasciigrave{}",
        "µ": r"\textmu{}",
    }
)


def csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV with a heading for each key of the first row; empty without rows."""
    written = io.StringIO()
    if not rows:
        return ""
    writer = csv_format.DictWriter(written, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return written.getvalue()


def _cell(value: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would evaluate."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def row(cells: Sequence[str]) -> str:
    """Return a row of a tabular of LaTeX; the cells are plain text."""
    return f"{' & '.join(map(escape, cells))} \\\\"


def escape(text: str) -> str:
    """Escape a text of one line for LaTeX."""
    return " ".join(text.split()).translate(_LATEX).replace("--", "-{}-")  # not one long dash
