"""The text of docs/mutation.md as blocks that a template writes: headings, paragraphs, lists, tables.

Only what that page uses; whatever else stands there is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

Spans = tuple[tuple[bool, str], ...]
"""Pieces of a text, each with whether it is code."""


@dataclass(frozen=True)
class Block:
    """A `kind` of heading1 to heading6, paragraph, list or table; a heading and a paragraph have one line."""

    kind: str
    lines: tuple[tuple[Spans, ...], ...]


def blocks(text: str) -> tuple[Block, ...]:
    """In their order."""
    lines = text.splitlines()
    return tuple(
        _block(kind, [line for _, line in group])
        for (kind, _), group in groupby(_kinds(lines), key=lambda pair: pair[0])
        if kind
    )


def _kinds(lines: list[str]) -> Iterator[tuple[tuple[str, int], str]]:
    """Each line with its kind; a heading is a block of its own."""
    heading = 0
    kind = ""
    for line in lines:
        if match := re.match(r"(#{1,6}) ", line):
            heading += 1
            kind = f"heading{len(match[1])}"
        elif line.startswith("|"):
            kind = "table"
        elif line.startswith("- ") or (kind == "list" and line.startswith("  ")):
            kind = "list"
        else:
            kind = "paragraph" if line.strip() else ""
        yield (kind, heading), line


def _block(kind: str, lines: list[str]) -> Block:
    if kind == "table":
        rows = [line.strip().strip("|").split("|") for line in lines if not re.fullmatch(r"[|\s:-]+", line)]
        return Block(kind, tuple(tuple(spans(cell.strip()) for cell in row) for row in rows))
    if kind == "list":
        items = re.split(r"^- ", "\n".join(lines), flags=re.MULTILINE)[1:]
        return Block(kind, tuple((spans(item),) for item in items))
    return Block(kind, ((spans(" ".join(lines).lstrip("# ") if kind != "paragraph" else " ".join(lines)),),))


def spans(text: str) -> Spans:
    """What stands between backticks is code; of a link its words."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return tuple((index % 2 == 1, piece) for index, piece in enumerate(plain.split("`")) if piece)
