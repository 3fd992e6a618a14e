"""Terminal tables of the costs of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from harness.applications.cost.document import CostDocument, LayerEntry, MisfitEntry, SourceEntry
from harness.core.console import Console
from harness.core.document import Number
from harness.core.table import Table
from harness.core.text import plural, shortened
from harness.core.time_units import duration

SHOWN = 60  # layers, those with most multiply-adds; the document has all
OPTIONAL = ("RAM", "code", "other ops", "operator", "moved")
"""The columns that a narrow terminal leaves out, the last one first."""


def show(document: CostDocument, console: Console) -> None:
    """Show the table of layers, the sums, and what does not fit."""
    console.show(table(document), *map(Text, _lines(document)))
    for text in _misfits(document.misfits):
        console.show(Text.assemble(("does not fit: ", "bold red"), text))
    if document.board and not document.misfits:
        console.show(Text(f"fits: every layer has a target on {document.board}", style="bold green"))


def table(document: CostDocument) -> Table:
    """Return the table of the layers, columns without any number left out."""
    columns: dict[str, Callable[[LayerEntry], str]] = {
        "layer": lambda layer: layer.name,
        "operator": lambda layer: layer.operator,
        "multiply-adds": lambda layer: _count(layer.multiply_adds),
        "other ops": lambda layer: _count(layer.operations),
        "constants": lambda layer: _count(layer.constants),
        "code": lambda layer: _count(layer.code),
        "RAM": lambda layer: _count(layer.buffers + layer.tables),
        "moved": lambda layer: _count(layer.moved_bytes),
        **_of_sources(document),
    }
    layers = _shown(document)
    cells = {heading: [text(layer) for layer in layers] for heading, text in columns.items()}
    filled = {heading: column for heading, column in cells.items() if any(column)}
    block = f", blocks of {plural(document.block, 'vector')}" if document.board else ""
    place = f" on {document.board} ({document.kind})" if document.board else ""
    right = [heading for heading in filled if heading not in ("layer", "operator")]
    optional = [heading for heading in OPTIONAL if heading in filled]
    rows = Table(*filled, right=right, optional=optional, title=f"{document.model}{place}{block}", box=None,
                  padding=(0, 2, 0, 0))  # fmt: skip
    for row in zip(*filled.values(), strict=True):
        rows.add_row(*map(Text, row))
    return rows


def _of_sources(document: CostDocument) -> dict[str, Callable[[LayerEntry], str]]:
    columns: dict[str, Callable[[LayerEntry], str]] = {}
    if measured := document.measured:
        columns["time" if measured.unit == "ns" else measured.unit] = lambda layer: _amount(layer.measured, measured)
    if bound := document.bound:
        columns[f"{bound.unit} ({bound.statistic})"] = lambda layer: _amount(layer.bound, bound)
    return columns


def _shown(document: CostDocument) -> list[LayerEntry]:
    """Return the layers with most multiply-adds and operations, in the order of the network."""
    if len(document.layers) <= SHOWN:
        return list(document.layers)
    work = [(layer.multiply_adds or 0, layer.operations or 0) for layer in document.layers]
    most = sorted(range(len(work)), key=lambda index: work[index], reverse=True)[:SHOWN]
    return [document.layers[index] for index in sorted(most)]


def _lines(document: CostDocument) -> Iterator[str]:
    """Yield the sums, the sources of numbers, and what is not known."""
    if (hidden := len(document.layers) - SHOWN) > 0:
        yield f"and {plural(hidden, 'layer')} with less work: --json"
    memory = document.memory
    yield (
        f"all {plural(len(document.layers), 'layer')}: {document.multiply_adds:,} multiply-adds, "
        f"{document.operations:,} other operations, {document.moved_bytes:,} bytes moved for a vector"
    )
    scheme = f"of a block of {plural(document.block, 'vector')}" if document.board else "of a vector"
    tables = f", tables computed at the start {memory.tables:,}" if memory.tables else ""
    yield (
        f"bytes: constants {memory.constants:,}{tables}; buffers {scheme} {memory.keep:,} with all activations kept, "
        f"{memory.reuse:,} with bytes shared"
    )
    if program := document.program:
        yield (
            f"program {program.bundle}: {program.stored:,} bytes stored, {program.code:,} of them functions of layers; "
            f"{program.written:,} bytes written, with --buffers {document.buffers}"
        )
    for limit in document.limits:
        share = limit.needed / limit.limit
        yield f"{limit.name}: {limit.needed:,} of {limit.limit:,} bytes ({share:.1%}): {limit.of}"
    for source in (document.measured, document.bound):
        if source:
            yield _source(source)
    yield from document.forecast
    yield from (f"unknown: {text}" for text in document.unknown)


def _source(source: SourceEntry) -> str:
    total = _amount(source.total if source.total is not None else source.network, source)
    of = "of the layers" if source.total is not None else "of the network"
    number = f"{total} {of}, " if total else ""
    unit = "times" if source.unit == "ns" else source.unit
    return f"{unit}: {number}{source.statistic} of {source.run} ({source.place})"


def _misfits(misfits: Sequence[MisfitEntry]) -> Iterator[str]:
    """Yield a sentence for each reason, with all layers that have it."""
    layers: dict[tuple[str, str, str], list[str]] = {}
    for misfit in misfits:
        names = layers.setdefault((misfit.target, misfit.reason, misfit.remedy), [])
        names += [f"{misfit.layer} ({misfit.operator})"] if misfit.target else []
    for (target, reason, remedy), names in layers.items():
        where = f"target {target} refuses {shortened(', '.join(names))}: " if names else ""
        yield f"{where}{reason}; {remedy}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _amount(number: Number | None, source: SourceEntry) -> str:
    if number is None:
        return ""
    return duration(number) if source.unit == "ns" else f"{number:,.0f}"
