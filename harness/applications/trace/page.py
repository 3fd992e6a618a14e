"""HTML page of `harness trace`: each node beside its code, with the address of every line that has machine code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.applications.trace.document import ConstantEntry, FunctionEntry, TraceabilityDocument
from harness.applications.trace.traced import Traced
from harness.report.page import environment, label_cells, script

PACKAGE = "harness.applications.trace"
MOST_LINES = 80
"""Lines of one function that the page shows of each file."""
NEAR = 4
"""Lines without code between two with code that are shown too."""
KINDS = ("stage", "kernel", "function", "forward")
"""Kinds of functions whose text is beside the node; others are in the table of symbols."""


@dataclass(frozen=True)
class Line:
    """A line of a source: its first address in the function, None if it has no code there, and its bytes."""

    number: int
    text: str
    address: int | None
    size: int


@dataclass(frozen=True)
class Block:
    """Lines of one file that belong to a function, without those after the first MOST_LINES."""

    file: str
    lines: Sequence[Line]
    left_out: int


@dataclass(frozen=True)
class Shown:
    """A function and its text."""

    function: FunctionEntry
    blocks: Sequence[Block]


def html(traced: Traced, document: TraceabilityDocument) -> str:
    """Return the page of all nodes of a document."""
    by_task = {each.task: each for each in document.argument}
    tasks = {each.name: each for each in document.tasks}
    parts = [
        {
            "node": node,
            "task": tasks[name],
            "tables": [constant for constant in document.constants if constant.name and name in constant.owner.tasks],
            "functions": [
                Shown(function, list(_blocks(traced, function)))
                for function in document.functions
                if name in function.owner.tasks and function.kind in KINDS
            ],
            "devices": [device for device in document.devices if name in device.tasks],
            "argument": by_task[name],
        }
        for node in document.nodes
        for name in node.tasks
        if name in tasks
    ]
    page = environment(PACKAGE).get_template("traceability.html.jinja")
    return label_cells(
        page.render(
            run=document,
            schema=document.schema_number,
            document_name="harness trace --json",
            parts=parts,
            symbols=sorted(document.all, key=lambda each: each.address),
            source=_source,
            script=script("tables.js", "traceability.js", package=PACKAGE),
        )
    )


def _source(each: FunctionEntry | ConstantEntry) -> str:
    return f"{each.file}:{each.line}" if each.line else each.file or ""


def _blocks(traced: Traced, function: FunctionEntry) -> Iterator[Block]:
    """Yield the text of a function and of what is inlined into it, its own file first."""
    first, end = function.address, function.address + function.size
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for start, stop, place in traced.debug.lines:
        if first <= start < end:
            at, size = found.setdefault(place.file, {}).get(place.line, (start, 0))
            found[place.file][place.line] = (min(at, start), size + stop - start)
    whole = traced.sources.body(function.file or "", function.line or 0, function.name)
    if whole is not None:
        found.setdefault(whole.file, {})
    for file in sorted(found, key=lambda name: (name != function.file, name)):
        texts = traced.text_of(file)
        own = range(whole.line, whole.line + len(whole.lines)) if whole is not None and whole.file == file else ()
        wanted = _filled(sorted({*found[file], *own}), len(texts))
        if not wanted:
            continue
        lines = [Line(line, texts[line - 1], *found[file].get(line, (None, 0))) for line in wanted]
        yield Block(file, lines[:MOST_LINES], max(len(lines) - MOST_LINES, 0))
    for one in function.inlined:
        body = traced.sources.body(one.file, one.line, one.name)
        if body is not None and (body.file, body.line) != (one.file, one.line):  # a macro's: all its code has one line
            lines = [Line(body.line + number, text, None, 0) for number, text in enumerate(body.lines)]
            yield Block(body.file, lines[:MOST_LINES], max(len(lines) - MOST_LINES, 0))


def _filled(numbers: Sequence[int], last: int) -> list[int]:
    """Return the numbers of lines with those between two that are near each other."""
    found: list[int] = []
    for number in numbers:
        if not 0 < number <= last:
            continue
        start = found[-1] + 1 if found and number - found[-1] <= NEAR else number
        found += range(start, number + 1)
    return found
