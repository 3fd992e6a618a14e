"""The comparison as a chart: one row a contender, the fastest first, on a logarithmic axis of time.

A line leads from the minimum to a dot at the median; dots are filled for the model and int8, open for float.  The
bounds are dashed.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.core.errors import RequestError
from harness.report.chart import CHARACTER_WIDTH, TOP, Axis, Chart, Key, Mark, Rows, Shape, number
from peers.report import Findings, Row, Times, ratios, setting

PLOT_WIDTH, TIME_WIDTH, RATIO_WIDTH = 420, 150, 62
MARGIN = 1.25  # the axis starts and ends this factor beyond the times
MOST_CHARACTERS = 80  # of the reason of a failure
TITLE = "ns, logarithmic; line and dot: minimum (median); x: times the minimum of the fastest of harness"


def draw(findings: Findings) -> Chart:
    """Draw the rows and the known bounds; RequestError if nothing was measured."""
    times = [row.times for row in findings.rows if row.times]
    bounds = [(bound.name, bound.ns) for bound in findings.bounds if bound.ns]
    if not times:
        raise RequestError("no contender was measured, so that there is no picture", "the table says why")
    shown = [ns for each in times for ns in (each.minimum_ns, each.median_ns)] + [ns for _, ns in bounds]
    x = Axis(TITLE, min(shown) / MARGIN, max(shown) * MARGIN, 0, PLOT_WIDTH, logarithmic=True)
    rows = Rows(tuple(row.name for row in findings.ordered))
    bottom = rows.pitch * len(times)  # rows without times are the last
    lines = [Shape("bound", f"M{number(x.at(ns))} 0V{bottom:g}", f"{name}: {ns:,.0f} ns") for name, ns in bounds]
    names = [
        Mark(x.at(ns) + 6, f"{name}: {ns:,.0f} ns", -4 - 12 * index, "start", "bound")
        for index, (name, ns) in enumerate(reversed(bounds))
    ]
    for index, row in enumerate(findings.ordered):
        lines += _lines(row, rows.middle(index), x)
        names += _texts(row, rows.middle(index) + 4, findings.base)
    return Chart(
        f"One inference of {findings.shape}: one vector, one thread, one core",
        "; ".join(mark.text for mark in names),
        x,
        rows,
        tuple(lines),
        (Key("ours", "harness"), Key("peer", "peers"), Key("", "● model or int8  ○ float")),
        tuple(names),
        plot_width=PLOT_WIDTH,
        plot_height=rows.height,
        left=20 + CHARACTER_WIDTH * max(map(len, rows.names)),
        top=TOP + 12 * len(bounds),
        right=TIME_WIDTH + RATIO_WIDTH,
        bottom=68,
        caption=setting(findings),
    )


def _kind(row: Row) -> str:
    return "ours" if row.is_ours else "peer"


def _lines(row: Row, y: float, x: Axis) -> Iterator[Shape]:
    """Yield the line and the dot of a row that was measured."""
    if row.times:
        low, middle = number(x.at(row.times.minimum_ns)), number(x.at(row.times.median_ns))
        yield Shape(_kind(row), f"M{low} {y:g}H{middle}", row.name)
        yield Shape(f"{_kind(row)} dot", f"M{middle} {y:g}h0.1", row.name)
        if row.computes == "float":
            yield Shape("hole", f"M{middle} {y:g}h0.1", row.name)


def _texts(row: Row, y: float, base: Times | None) -> Iterator[Mark]:
    """Yield the times of a row, or the reason why it was not measured."""
    if row.times is None:
        yield Mark(4, row.failure[:MOST_CHARACTERS], y, "start", "soft")
        return
    times = f"{row.times.minimum_ns:,} ({row.times.median_ns:,}) ns"
    yield Mark(PLOT_WIDTH + TIME_WIDTH, times, y, "end", f"{_kind(row)}{' title' * row.is_ours}")
    if both := ratios(row.times, base):
        yield Mark(PLOT_WIDTH + TIME_WIDTH + RATIO_WIDTH, f"{both[0]:.2f} x", y, "end", f"{_kind(row)} title")
