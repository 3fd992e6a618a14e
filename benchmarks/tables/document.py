"""Tables of cells: each has a value and its source, or the reason why it is empty."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import Field

from harness.core.document import Document, Entries, Number

NOT_MEASURED = "not measured here"


class CellEntry(Entries):
    """A value with the number of its source in the document, or `missing`, the reason why there is none."""

    value: Number | str | None = None
    source: int | None = None
    missing: str = ""


class ColumnEntry(Entries):
    """A column: its name for programs, its heading for people, and whether its numbers are the paper's."""

    key: str
    heading: str
    of_paper: bool = False


class TableEntry(Entries):
    """A table; each row has a cell for each column, by the column's name."""

    name: str
    title: str
    note: str
    columns: Sequence[ColumnEntry]
    rows: Sequence[Mapping[str, CellEntry]]


class TablesDocument(Document):
    """The file `tables.json`: the tables of a paper with this installation's numbers."""

    number: ClassVar[int | None] = 1

    schema_number: int = Field(alias="schema")
    paper: str
    started: str
    harness: str
    command: Sequence[str]
    tables: Sequence[TableEntry]
    sources: Sequence[str]


@dataclass
class Sources:
    """The sources of all cells of a document, each once; a cell has the number of its own."""

    texts: dict[str, int] = field(default_factory=dict)

    def cell(self, value: Number | str | None, source: str, missing: str = "") -> CellEntry:
        """Return the cell of a value, or an empty one with a reason if the value is None."""
        if value is None:
            return CellEntry(missing=missing or "not available")
        return CellEntry(value=value, source=self.texts.setdefault(source, len(self.texts) + 1))


def label(text: str) -> CellEntry:
    """Return the cell of a name, which has no source."""
    return CellEntry(value=text)


def table(
    name: str,
    title: str,
    note: str,
    heads: Iterable[str],
    rows: Sequence[Mapping[str, CellEntry]],
    names: Collection[str] = (),
) -> TableEntry:
    """Return a table; `heads` are `key=heading`, and the paper's numbers have a key with the word paper.

    A cell that a row lacks was not measured; in a column of `names` it is empty.
    """
    split = [(key, heading or key) for key, _, heading in (head.partition("=") for head in heads)]
    columns = [ColumnEntry(key=key, heading=head, of_paper="paper" in key.split("_")) for key, head in split]
    empty = {key: label("") if key in names else CellEntry(missing=NOT_MEASURED) for key, _ in split}
    whole = [{key: row.get(key, empty[key]) for key in empty} for row in rows]
    return TableEntry(name=name, title=title, note=note, columns=columns, rows=whole)
