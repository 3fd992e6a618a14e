"""Charts over time: the time series of a part, the board's temperatures and clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from harness.core.time_units import duration
from harness.report.chart import HEIGHT, Axis, Chart, Key, Mark, Shape, horizontal, line, number, time_axis, vertical
from harness.runs.entries import MeasurementDocument, PartEntry

MOST_STRETCHES = 125  # per part of several, so that a page of eleven layers stays small
MOST_RULES = 24  # segments with a line each; the borders of more are ticks at the upper edge
MOST_NAMED = 4
SERIES = 4  # kinds of lines in the style sheet

Snapshot: TypeAlias = Mapping[str, Any]


def series_chart(part: PartEntry, document: MeasurementDocument, *, small: bool) -> Chart:
    """Draw minimum, median and maximum of every stretch of the series, and events of the board."""
    executions = part.summary.executions
    stretches = _joined(part.timeline) if small else part.timeline
    low, high = min(row[1] for row in stretches), max(row[3] for row in stretches)
    x = horizontal("execution", 0, executions)
    y = time_axis("time", low, high * 1.05, HEIGHT, 0)
    events = [*_throttled(document, x), *_borders(document, x), *_found(part, x, y)]
    keys = [Key("reach", "min to max"), Key("line median", "median"), Key("rule", "new process")]
    keys += [Key("throttled", "throttled")] if any(shape.kind == "throttled" for shape in events) else []
    return Chart(
        "Series: in the order of measurement",
        f"{executions:,} executions in {len(stretches)} stretches, {duration(low)} to {duration(high)}",
        x, y, (*events, *_stretches(stretches, executions, x, y)), tuple(keys), tuple(_marks(part, x)),
    )  # fmt: skip


def _joined(stretches: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """Join neighbours to at most MOST_STRETCHES stretches, each with the largest median of its members."""
    size = -(-len(stretches) // MOST_STRETCHES)
    groups = [stretches[start : start + size] for start in range(0, len(stretches), size)]
    return [
        (rows[0][0], min(row[1] for row in rows), max(row[2] for row in rows), max(row[3] for row in rows))
        for rows in groups
    ]


def _stretches(stretches: Sequence[Sequence[int]], executions: int, x: Axis, y: Axis) -> Iterator[Shape]:
    """Yield vertical lines as wide as a stretch, and the line of medians."""
    starts = [row[0] for row in stretches]
    middles = [x.at((start + end) / 2) for start, end in zip(starts, [*starts[1:], executions], strict=True)]
    bars = "".join(
        f"M{number(at)} {number(y.at(row[1]) + 0.5)}V{number(y.at(row[3]) - 0.5)}"
        for at, row in zip(middles, stretches, strict=True)
    )
    yield Shape("reach", bars, width=round((x.end - x.start) / len(stretches), 2))
    medians = [(at, y.at(row[2])) for at, row in zip(middles, stretches, strict=True)]
    yield Shape("line median", line(medians if len(medians) > 1 else medians * 2))


def _borders(document: MeasurementDocument, x: Axis) -> Iterator[Shape]:
    """Yield lines at the starts of new processes."""
    size, count = document.measured.segment, document.measured.segments
    end = HEIGHT if count <= MOST_RULES else 8
    if count > 1:
        borders = "".join(f"M{number(x.at(size * index))} 0V{end}" for index in range(1, count))
        yield Shape("rule", borders, f"a new process every {size:,} executions")


def _throttled(document: MeasurementDocument, x: Axis) -> Iterator[Shape]:
    """Yield the segments between whose snapshots the board reported throttling."""
    size, snapshots = document.measured.segment, document.state.snapshots
    for index, segment in enumerate(document.state.segments):
        around = snapshots[index : index + 2]
        cooling = any(state > 0 for snapshot in around for state in snapshot["cooling"].values())
        if cooling or any(count > 0 for count in segment.board["throttle_events"].values()):
            left, right = number(x.at(size * index)), number(x.at(size * (index + 1)))
            yield Shape("throttled", f"M{left} 0H{right}V{HEIGHT}H{left}z", f"segment {index + 1}: the board throttled")


def _found(part: PartEntry, x: Axis, y: Axis) -> Iterator[Shape]:
    """Yield the limit above which an execution is an outlier, and the end of the warm-up."""
    series = part.series
    if "not_given" in series:
        return
    if series["outliers"]["count"]:
        fence = series["outliers"]["above_ns"]
        yield Shape("limit", f"M{x.start} {number(y.at(fence))}H{x.end}", f"far out above {duration(fence)}")
    if warm_up := series["warm_up"]["executions"]:
        yield Shape("event", f"M{number(x.at(warm_up))} 0V{HEIGHT}", f"warm-up until execution {warm_up:,}")


def _marks(part: PartEntry, x: Axis) -> Iterator[Mark]:
    series = part.series
    if "not_given" not in series and series["warm_up"]["executions"]:
        yield Mark(x.at(series["warm_up"]["executions"]), "warm-up")


def states(document: MeasurementDocument) -> tuple[Chart, ...]:
    """Draw temperatures and frequencies over the snapshots, as far as the board provides them."""
    snapshots = document.state.snapshots
    quantities = (
        ("Temperature", "°C", 1.0, lambda snapshot: snapshot["temperature_c"]),
        ("Frequency of the cores", "MHz", 1e3, lambda snapshot: _cores(snapshot["frequency_khz"])),
        ("Frequency of devices", "MHz", 1e6, lambda snapshot: snapshot["device_hz"]),
    )
    charts = (_state(snapshots, *quantity) for quantity in quantities)
    return tuple(chart for chart in charts if chart)


def _cores(frequencies: Mapping[str, float]) -> dict[str, float]:
    return {f"core {core}": value for core, value in frequencies.items()}


def _state(
    snapshots: Sequence[Snapshot],
    title: str,
    unit: str,
    divisor: float,
    read: Callable[[Snapshot], Mapping[str, float]],
) -> Chart | None:
    """Draw one line for each sensor; None if the board has no sensor."""
    begin = snapshots[0]["uptime_s"] if snapshots else 0.0
    rows = [
        (snapshot["uptime_s"] - begin, {name: value / divisor for name, value in read(snapshot).items()})
        for snapshot in snapshots
    ]
    names = list(dict.fromkeys(name for _, values in rows for name in values))
    if not names:
        return None
    numbers = [value for _, values in rows for value in values.values()]
    low, high = min(numbers), max(numbers)
    room = 0.1 * (high - low) or 0.05 * abs(high) or 1.0
    x = horizontal("s since the first snapshot", 0, rows[-1][0])
    y = vertical(unit, low - room, high + room)
    about = f"{len(names)} sensors from {low:,.4g} to {high:,.4g} {unit}"
    return Chart(title, about, x, y, tuple(_sensors(names, rows, x, y)), tuple(_keys(names)))


def _sensors(
    names: Sequence[str], rows: Sequence[tuple[float, Mapping[str, float]]], x: Axis, y: Axis
) -> Iterator[Shape]:
    for index, name in enumerate(names):
        points = [(x.at(time_s), y.at(values[name])) for time_s, values in rows if name in values]
        yield Shape(f"line series-{index % SERIES}", line(points if len(points) > 1 else points * 2), name)


def _keys(names: Sequence[str]) -> Iterator[Key]:
    for index, name in enumerate(names[:MOST_NAMED]):
        yield Key(f"line series-{index % SERIES}", name[:16])
    if len(names) > MOST_NAMED:
        yield Key("", f"and {len(names) - MOST_NAMED} more")
