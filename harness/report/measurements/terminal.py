"""Terminal summary of a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from harness.core.console import Console
from harness.core.table import Table
from harness.core.text import plural
from harness.core.time_units import Unit, duration
from harness.report.measurements.distribution import METHODS
from harness.report.measurements.labels import (
    QUIETER_BASE,
    clock_text,
    findings,
    given,
    percentile,
    probability,
    table_unit,
)
from harness.runs.entries import AgainstEntry, MeasurementDocument, PartEntry
from harness.runs.facts import clean, engines_text
from harness.runs.measurement.facts import Facts, gather, varying

COLUMN_GAP = 3  # characters between two columns of a table
SHIFT_STYLES = {"slower": "bold red", "faster": "green", "inconclusive": "yellow"}


def show(content: Mapping[str, Any], report: Path, console: Console) -> None:
    """Show the result of a measurement on the terminal; `report` is the page with more details."""
    document = MeasurementDocument.view(clean(content))
    facts = gather(document)
    good = document.verdict == "measured"
    console.show(Text(f"{document.verdict}: {document.reason}", style="bold green" if good else "bold red"))
    if not facts.is_met:
        console.show(Text(f"NOT MET: {facts.why_not_met}", style="bold yellow"))
    console.show(_count_table(document) if facts.counted else _time_table(document.parts, console.out.width))
    if facts.counted and not all(part.alone for part in document.parts):
        console.show(Text(f"hint: {_whole_network(document)}", style="yellow"))
    if document.against:
        _show_comparison(document.against, console)
    for caution in facts.cautions:
        console.show(Text(f"caution: {caution}", style="yellow"))
    if document.reference.engines:
        console.show(Text(f"reference: {engines_text(document.reference)}, which agree"))
    for note in _notes(document, facts):
        console.show(Text(note))
    console.show(Text(f"report: {report}"))


def _whole_network(document: MeasurementDocument) -> str:
    """Return the advice on counting the instructions of parts that wait for a device."""
    items = ",".join("c" for _ in document.plan.items)
    launches = "for a part that waits for a device, only the start and the wait are counted"
    return f"{launches}; to count the whole network, run its layers on processors: --items {items}"


def _time_table(parts: Sequence[PartEntry], width: int) -> Table:
    """Return a row for each part; for a single part that is wider than `width`, a row for each statistic."""
    unit = table_unit(parts)
    headings = ("min", "median", "mean", "std", *map(percentile, parts[0].summary.quantiles), "max")
    rows = [(part.name, f"{part.summary.executions:,}", *_statistics(part, unit)) for part in parts]
    if len(parts) == 1 and sum(map(len, rows[0])) + COLUMN_GAP * len(rows[0]) > width:
        return _tall_table(("part", "n", *(f"{name}, {unit.name}" for name in headings)), rows[0])
    table = Table("part")
    for heading in ("n", *(f"{name}\n{unit.name}" for name in headings)):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _tall_table(headings: Sequence[str], values: Sequence[str]) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for heading, value in zip(headings, values, strict=True):
        table.add_row(heading, value)
    return table


def _statistics(part: PartEntry, unit: Unit) -> Iterator[str]:
    """Yield least time, median, mean, deviation, quantiles and maximum; a dash for missing values."""
    summary = part.summary
    values = [summary.min_ns, summary.median_ns, summary.mean_ns, given(summary.deviation_ns)]
    values += [quantile.value_ns for quantile in summary.quantiles]
    yield from (unit.text(value) or "-" for value in (*values, summary.max_ns))


def _count_table(document: MeasurementDocument) -> Table:
    unit = document.measured.unit
    numbers = ("n", f"min {unit}", f"max {unit}")
    table = Table("part", "ran on", *numbers, right=numbers)
    for part in document.parts:
        style = "bold red" if part in varying(document) else ""
        extremes = (Text(f"{count:,}", style=style) for count in (part.min, part.max))
        table.add_row(part.name, part.ran_on, f"{part.executions:,}", *extremes)
    return table


def _show_comparison(against: AgainstEntry, console: Console) -> None:
    """Show the gate of every shift, the reasons for parts that are not unchanged, and what else changed."""
    base = against.base.run
    if any(part.shifts for part in against.parts):
        console.show(_shift_table(against))
    moved = [part for part in against.parts if part.verdict != "unchanged"]
    for part in moved:
        reasons = part.reasons or [part.not_given]
        console.show(Text(f"against {base}, {part.name}: {'; '.join(reasons)}"))
    if not moved:
        console.show(Text(f"against {base}: unchanged"))
    for level in against.levels:
        noise = f"medians of {level.count} {level.between} deviate by {level.deviation:.1%}"
        console.show(Text(f"noise: {noise} (standard deviation, of the part that varies most)"))
    for limit in against.limits:
        console.show(Text(f"caution: {limit}", style="yellow"))
    if against.too_noisy:
        console.show(Text(f"hint: {QUIETER_BASE}", style="yellow"))
    if against.changed:
        console.show(Text(f"since {base} changed: {', '.join(one.topic for one in against.changed)}"))


def _shift_table(against: AgainstEntry) -> Table:
    """Return a row for every statistic of every part."""
    title = f"Shift since {against.base.run}"
    table = Table("part", "of", title=title)
    for name in ("base", "new", "shift", "gate", "gate / base"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for part in against.parts:
        for shift in part.shifts:
            times = map(duration, (shift.base_ns, shift.new_ns, shift.shift_ns, shift.gate_ns))
            share = f"{shift.gate_ns / shift.base_ns:,.1%}" if shift.base_ns else "-"
            style = SHIFT_STYLES.get(shift.verdict, "")
            table.add_row(part.name, shift.of, *times, share, Text(shift.verdict, style))
    return table


def _notes(document: MeasurementDocument, facts: Facts) -> Iterator[str]:
    """Yield findings about the series, the cost of a reading, and unknown conditions."""
    if not facts.counted:
        yield from _found(document)
    for one in document.devices:
        ends = f"{duration(one.least_ns)} to {duration(one.greatest_ns)}"
        warm = ", warm-up contained" if one.executions > document.measured.samples else ""
        average = f"{duration(one.average_ns)} on average, {ends}{warm}"
        yield f"by the device of item {one.item}, {one.kind} {one.name}: {average}"
    yield f"interval of a reading: {document.measured.interval}"
    yield f"clock: {clock_text(document)}"
    if facts.unseen:
        more = f" (and {len(facts.unseen) - 1} more, see the report)" if len(facts.unseen) > 1 else ""
        yield f"unknown: {facts.unseen[0]}{more}"


def _found(document: MeasurementDocument) -> Iterator[str]:
    """Yield the findings of a single part in full; of several parts only their names."""
    parts = document.parts
    notable = [
        (part.name, finding) for part in parts for finding in findings(part, document.measured) if finding.notable
    ]
    if len(parts) == 1:
        yield from (f"{finding.topic.lower()}: {finding.sentence}" for _, finding in notable)
    else:
        for topic in dict.fromkeys(finding.topic for _, finding in notable):
            names = [name for name, finding in notable if finding.topic == topic]
            yield f"{topic.lower()} in {', '.join(names) if len(names) < len(parts) else 'all parts'}: see the report"
    yield from _extremes(parts)


def _extremes(parts: Sequence[PartEntry]) -> Iterator[str]:
    """Yield the pWCET of all parts, then the first reason for those that have none."""
    for part in parts:
        for name, result in part.pwcet.items():
            if "curve" in result:
                yield f"pWCET of {part.name}, {METHODS[name]}: {_last_point(result['curve'])}"
    refused = [part for part in parts if not any("curve" in result for result in part.pwcet.values())]
    if refused:
        results = refused[0].pwcet.values()
        reasons = list(dict.fromkeys(reason for result in results for reason in result["not_applicable"]))
        others = f" (and {plural(len(reasons) - 1, 'more reason')})" if len(reasons) > 1 else ""
        names = refused[0].name if len(refused) == 1 else f"{len(refused)} parts"
        yield f"no pWCET of {names}: {reasons[0]}{others}"


def _last_point(curve: Sequence[Mapping[str, Any]]) -> str:
    """Return the rarest time of a curve that is not beyond what the sample supports."""
    supported = [point for point in curve if not point["beyond"]]
    if not supported:
        return "see the report"
    return f"{duration(supported[-1]['time_ns'])} exceeded with {probability(supported[-1]['exceedance'])}"
