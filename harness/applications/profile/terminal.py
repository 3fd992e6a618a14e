"""Terminal tables of a profile: nodes, operators, and what the numbers are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rich.text import Text

from harness.applications.profile.document import DIVISIBLE, NodeEntry, OperatorEntry, ProfileDocument
from harness.core.console import Console
from harness.core.document import Content
from harness.core.table import Table
from harness.core.text import plural
from harness.core.time_units import duration
from harness.runs.entries import MeasurementDocument

SHOWN = 30  # nodes, those with most time; the document has all
NAMED = 3  # nodes whose outliers are named


def show(document: ProfileDocument, content: Content, folder: Path, console: Console) -> None:
    """Show the profile of a measurement, the verdict and the state of its numbers first."""
    run = MeasurementDocument.view(content)
    style = "bold green" if run.verdict == "measured" else "bold red"
    console.show(Text(f"{run.verdict}: {run.reason}", style=style))
    if document.not_met_because:
        console.show(Text(f"NOT MET: {document.not_met_because}", style="bold yellow"))
    console.show(_nodes(document), _operators(document), *map(Text, _notes(document)), Text(f"profile: {folder}"))


def _amount(document: ProfileDocument) -> Callable[[float], str]:
    return duration if document.unit == "ns" else "{:,.0f}".format


def _table(*headings: str) -> Table:
    table = Table()
    for heading in headings:
        table.add_column(heading, justify="left" if heading in {"node", "operator"} else "right", no_wrap=True)
    return table


def _nodes(document: ProfileDocument) -> Table:
    """Return the table of the nodes, those with most time first; columns without any value are left out."""
    ordered = sorted(document.nodes, key=lambda node: -node.amount)[:SHOWN]
    timed = document.unit == "ns"
    columns: dict[str, Callable[[NodeEntry], str]] = {
        "node": lambda node: node.name,
        "operator": lambda node: node.operator,
        "real" if timed else document.unit: lambda node: _amount(document)(node.amount),
        "share": lambda node: f"{node.share:.1%}",
        "cpu": lambda node: _time(node.cpu_ns),
        "user": lambda node: _time(node.user_ns),
        "system": lambda node: _time(node.system_ns),
        "outliers": lambda node: f"{node.outliers.count:,}" if node.outliers else "",
        "Gop/s": lambda node: _giga(node.operations_per_s),
        "op/byte": lambda node: f"{node.operations / node.bytes:.2g}" if node.operations and node.bytes else "",
        "of roof": lambda node: f"{node.of_roof:.1%}" if node.of_roof is not None else "",
        "before": lambda node: _amount(document)(node.base) if node.base is not None else "",
        "ratio": lambda node: f"{node.ratio:.3f}" if node.ratio is not None else "",
    }
    cells = {heading: [text(node) for node in ordered] for heading, text in columns.items()}
    filled = {heading: column for heading, column in cells.items() if any(column)}
    table = _table(*filled)
    for row in zip(*filled.values(), strict=True):
        table.add_row(*map(Text, row))
    return table


def _operators(document: ProfileDocument) -> Table:
    timed = document.unit == "ns"
    times = ("cpu", "user", "system") if timed else ()
    table = _table("operator", "nodes", "real" if timed else document.unit, "share", *times)
    for entry in (*document.operators, document.total):
        table.add_row(*map(Text, _operator(entry, document, timed=timed)))
    return table


def _operator(entry: OperatorEntry, document: ProfileDocument, *, timed: bool) -> Iterator[str]:
    yield from (entry.operator, str(entry.nodes), _amount(document)(entry.amount), f"{entry.share:.1%}")
    if timed:
        yield from map(_time, (entry.cpu_ns, entry.user_ns, entry.system_ns))


def _time(time_ns: float | None) -> str:
    return "" if time_ns is None else duration(round(time_ns))


def _giga(rate: float | None) -> str:
    return f"{rate / 1e9:.3g}" if rate else ""


def _notes(document: ProfileDocument) -> Iterator[str]:
    """Yield what is left out, which executions were outliers, and what the columns contain."""
    if (more := len(document.nodes) - SHOWN) > 0:
        yield f"and {plural(more, 'node')} with less time: --json"
    for node in sorted(document.nodes, key=lambda node: -node.amount)[:NAMED]:
        if node.outliers and node.outliers.slowest:
            found = node.outliers
            named = ", ".join(
                f"execution {at:,} (vector {vector:,}) {duration(ns)}" for at, vector, ns in found.slowest
            )
            yield f"outliers of {node.name}: {found.count:,} above {duration(found.above_ns)}; slowest: {named}"
    if document.unit == "ns":
        kept = f"{document.executions:,} executions after {document.warmup:,} that warm up, of which none was dropped"
        yield f"real: median of {kept}"
        for each in document.cpu:
            cost = f"without {each.cost_ns:,.0f} ns of a reading"
            yield f"{each.quantity}: mean of {each.executions:,} executions, {cost}"
        if any(node.cpu_ns is not None and node.user_ns is None for node in document.nodes):
            yield f"user, system: not given for nodes shorter than {DIVISIBLE} readings, which Linux divides with them"
        if document.peak is None:
            yield "of roof: unknown; state operations_per_s and bytes_per_s under `peak` of the board in boards.yaml"
    if document.peak_memory_kib is not None:
        yield f"peak memory of the program: {document.peak_memory_kib:,} KiB resident (VmHWM)"
    if document.against:
        yield f"before, ratio: the node in {document.against}, and this profile divided by it"
