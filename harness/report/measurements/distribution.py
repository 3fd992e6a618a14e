"""Charts of the distribution of execution times: ranges, histogram, empirical tail with the laws fitted to it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from harness.analysis.timing import Pwcet
from harness.analysis.timing.laws import ExtremeValue, Pareto
from harness.core.time_units import NS, duration
from harness.report.chart import (
    CHARACTER_WIDTH,
    HEIGHT,
    TITLE,
    WIDTH,
    Axis,
    Chart,
    Key,
    Mark,
    Rows,
    Shape,
    area,
    horizontal,
    line,
    number,
    time_axis,
    vertical,
)
from harness.report.measurements.labels import given, percentile
from harness.runs.entries import ClockEntry, ComparedPartEntry, HistogramEntry, PartEntry, ShiftEntry, SummaryEntry

LAWS = {law.name: law for law in (ExtremeValue, Pareto)}
METHODS = {"block_maxima": "block maxima", "peaks": "peaks over threshold"}
TIME = "execution time"
CURVE_POINTS = 40
LOWEST_BAR = 0.5  # lower end of the bars of a logarithmic histogram, so that one execution is visible
FINEST = 0.7  # units: closer steps of the tail cannot be seen


def ranges(parts: Sequence[PartEntry], clock: ClockEntry) -> Chart:
    """Draw minimum to maximum of every part, and of two readings of the clock, on one logarithmic axis."""
    named = [(part.name, part.summary) for part in parts] + [("two clock readings", clock.cost)]
    rows = Rows(tuple(name if len(name) < 24 else f"{name[:22]}…" for name, _ in named))
    low, high = min(one.min_ns for _, one in named), max(one.max_ns for _, one in named)
    x = time_axis(TIME, low * 0.9, high * 1.1, logarithmic=True)
    shapes = [shape for row, (name, one) in enumerate(named) for shape in _range(rows.middle(row), name, one, x)]
    return Chart(
        "From the fastest to the slowest execution",
        "; ".join(f"{name}: {one.min_ns:,} to {one.max_ns:,} ns" for name, one in named),
        x,
        rows,
        tuple(shapes),
        (Key("reach", "min to max"), Key("bulk", "min to p99"), Key("middle", "median")),
        plot_height=rows.height,
        left=20 + CHARACTER_WIDTH * max(map(len, rows.names)),
    )


def _range(y: float, name: str, summary: SummaryEntry, x: Axis) -> Iterator[Shape]:
    low, high, middle = (number(x.at(time)) for time in (summary.min_ns, summary.max_ns, summary.median_ns))
    ends = f"{duration(summary.min_ns)} to {duration(summary.max_ns)}"
    about = f"{name}: {ends}, median {duration(summary.median_ns)}"
    yield Shape("reach", f"M{low} {number(y)}H{high}", about)
    most = summary.quantiles[0].value_ns if summary.quantiles else None
    if most is not None:
        yield Shape("bulk", f"M{low} {number(y)}H{number(x.at(most))}", about)
    yield Shape("middle", f"M{middle} {number(y - 8)}V{number(y + 8)}")


def histogram(entry: HistogramEntry, title: str) -> Chart:
    """Draw counts on a logarithmic axis."""
    edges, counts = entry.edges_ns, entry.counts
    x = time_axis(TIME, edges[0], edges[-1], logarithmic=False)
    y = vertical("executions", LOWEST_BAR, 1.5 * max(counts), logarithmic=True)
    bars = "".join(_bars(list(zip(edges, edges[1:], counts, strict=False)), x, y))
    width = duration(edges[1] - edges[0])
    about = f"{sum(counts):,} executions from {duration(edges[0])} to {duration(edges[-1])} in bins of {width}"
    return Chart(title, about, x, y, (Shape("bar", bars),), top=TITLE)


def _bars(bins: Sequence[tuple[float, float, int]], x: Axis, y: Axis) -> Iterator[str]:
    """Yield one outline for consecutive bins that are not empty."""
    for filled, stretch in groupby(bins, key=lambda one: one[2] > 0):
        if filled:
            (left, right, count), *others = stretch
            yield f"M{number(x.at(left))} {HEIGHT}V{number(y.at(count))}H{number(x.at(right))}"
            yield from (f"V{number(y.at(count))}H{number(x.at(right))}" for _, right, count in others)
            yield f"V{HEIGHT}z"


def tail(part: PartEntry, base: Sequence[Sequence[float]]) -> Chart:
    """Draw the share of executions that take a time or longer, with the laws that apply; `base` is another tail."""
    laws = _laws(part)
    points = [(time, share) for law in laws.values() for time, share in _curve(law)]
    times = [time for time, _ in (*part.tail, *base, *points)]
    lowest = min(share for _, share in (*part.tail, *base, *points))
    x = time_axis(TIME, min(times), max(times) * 1.02)
    y = vertical("share as long or longer", lowest / 2, 1, logarithmic=True)
    shapes = [*([Shape("base", _steps(base, x, y))] if base else []), Shape("new", _steps(part.tail, x, y))]
    keys = [Key("new", "measured"), *([Key("base", "base")] if base else [])]
    for name, law in laws.items():
        shapes += _law(part.pwcet[name], law, name, x, y)
        keys.append(Key(name.replace("_", "-"), f"pWCET, {METHODS[name]}"))
    if laws:
        shapes += _limits(part.summary.executions, y)
    about = f"longest {duration(part.summary.max_ns)}; {_laws_about(laws)}"
    return Chart("Tail: how rarely it takes longer", about, x, y, tuple(shapes), tuple(keys), tuple(_marks(part, x)))


def _steps(points: Sequence[Sequence[float]], x: Axis, y: Axis) -> str:
    """Return the path of the empirical tail: the share of a point holds from the point before it on."""
    (at, height), *rest = [(x.at(time), y.at(share)) for time, share in points]
    path, last = [f"M{number(at)} {number(height)}"], rest[-1:]
    for point in rest:
        if point in last or abs(point[0] - at) >= FINEST or abs(point[1] - height) >= FINEST:
            at, height = point
            path.append(f"V{number(height)}H{number(at)}")
    return "".join(path)


def _laws(part: PartEntry) -> dict[str, Pwcet]:
    """Return the laws that passed their tests."""
    return {
        name: Pwcet(
            LAWS[found["law_name"]](**found["law"]), LAWS[found["law_name"]](**found["check"]), found["executions"],
            found["extremes"], found["rate"], found["selection"], found["extrapolation"], (), (), found["max_ns"],
        )
        for name, found in part.pwcet.items()
        if "curve" in found
    }  # fmt: skip


def _curve(law: Pwcet) -> list[tuple[float, float]]:
    """Return times and probabilities from the start of the tail down to 1e-9."""
    return [(law.time_ns(p), p) for p in np.geomspace(law.rate * 0.999, 1e-9, CURVE_POINTS).tolist()]


def _law(found: Mapping[str, Any], law: Pwcet, name: str, x: Axis, y: Axis) -> Iterator[Shape]:
    """Yield the curve, dashed where it is extrapolated, and its intervals as an area."""
    kind, once = name.replace("_", "-"), 1 / law.executions
    curve = [(x.at(time), y.at(p)) for time, p in _curve(law)]
    border = (x.at(law.time_ns(once)), y.at(once)) if once < law.rate else curve[0]
    inside = [point for point in curve if point[1] < border[1]]
    outside = [point for point in curve if point[1] > border[1]]
    sides = (
        [(x.at(point["interval"][end] or x.high), y.at(point["exceedance"])) for point in found["curve"]]
        for end in ("high", "low")
    )
    yield Shape(f"{kind} interval", area(*sides), f"{METHODS[name]}: the confidence interval of the curve")
    if inside:
        yield Shape(kind, line([*inside, border]), f"pWCET by {METHODS[name]}, within the sample")
    yield Shape(f"{kind} beyond", line([border, *outside]), f"pWCET by {METHODS[name]}, extrapolated")


def _limits(executions: int, y: Axis) -> Iterator[Shape]:
    """Yield the line below which a curve is extrapolated."""
    at = number(y.at(1 / executions))
    about = f"one execution in {executions:,}: below this line the curves are extrapolated"
    yield Shape("limit", f"M0 {at}H{WIDTH}", about)


def _laws_about(laws: Mapping[str, Pwcet]) -> str:
    return "; ".join(f"pWCET by {METHODS[name]}" for name in laws) or "no pWCET applies"


def _marks(part: PartEntry, x: Axis) -> Iterator[Mark]:
    """Yield labels of the maximum, and of quantiles if the labels do not overlap."""
    summary = part.summary
    quantiles = ((percentile(quantile), quantile.value_ns) for quantile in reversed(summary.quantiles))
    edge = math.inf
    for text, time_ns in (("max", summary.max_ns), *quantiles, ("median", summary.median_ns)):
        reach = CHARACTER_WIDTH * (len(text) + 1) / 2
        if time_ns is not None and x.at(time_ns) + reach < edge:
            edge = x.at(time_ns) - reach
            yield Mark(x.at(time_ns), text)


def shifts(part: ComparedPartEntry) -> Chart:
    """Draw the shifts of one part since the base, each with its interval, relative to the gate."""
    rows = Rows(tuple(shift.of for shift in part.shifts))
    reach = max(1.0, *(abs(value) for shift in part.shifts for value in _ends(shift)))
    x = horizontal("shift, in gates: relevant beyond 1", -1.15 * reach, 1.15 * reach)
    gate = f"M{number(x.at(-1))} 0H{number(x.at(1))}V{rows.height:g}H{number(x.at(-1))}z"
    shapes = [
        Shape("gate", gate, "the gate: max(floor, 3 x noise)"),
        Shape("rule", f"M{number(x.at(0))} 0V{rows.height:g}"),
    ]
    for row, shift in enumerate(part.shifts):
        low, middle, high = (number(x.at(value)) for value in _ends(shift))
        y = rows.middle(row)
        about = f"{shift.of}: {shift.reason}"
        shapes += [
            Shape("span", f"M{low} {y:g}H{high}", about),
            Shape(f"dot {shift.verdict}", f"M{middle} {y:g}h0", about),
        ]
    return Chart(
        "Shifts against the base, faster to the left",
        "; ".join(f"{shift.of}: {shift.shift_ns:+,.0f} ns, {shift.verdict}" for shift in part.shifts),
        x, rows, tuple(shapes), (Key("gate", "gate"), Key("span", "interval")), plot_height=rows.height,
    )  # fmt: skip


def _ends(shift: ShiftEntry) -> tuple[float, float, float]:
    """Return low end, shift and high end in gates; the ends are the shift if there is no interval."""
    gate, interval = shift.gate_ns or NS.nanoseconds, given(shift.interval)
    low, high = (interval["low"], interval["high"]) if interval else (shift.shift_ns, shift.shift_ns)
    return low / gate, shift.shift_ns / gate, high / gate
