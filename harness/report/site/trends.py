"""Trends of measured numbers: charts with the band of their noise, and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.core.time_units import duration, unit_of
from harness.report.chart import WIDE, Axis, Chart, Key, Shape, Tick, area, line
from harness.report.site.nights import board_page
from harness.runs.history.run_record import Run
from harness.runs.history.trend import NoiseLevel, Series, Trend

PLOT_WIDTH, PLOT_HEIGHT = 330, 120
DAY_S = 86_400.0


@dataclass(frozen=True)
class Days(Axis):
    """An axis of moments, seconds since 1970; labels are days."""

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Days, five at most, the last one included; a range within one day has one tick at its end."""
        first, last = int(self.low // DAY_S) + 1, int(self.high // DAY_S)
        if first > last:
            return (Tick(round(self.at(self.high), 1), _day(self.high)),)
        step = max(1, -(-(last - first + 1) // 4))
        days = range(last, first - 1, -step)
        return tuple(Tick(round(self.at(one * DAY_S), 1), _day(one * DAY_S)) for one in sorted(days))


def _day(time_s: float) -> str:
    found = datetime.fromtimestamp(time_s, UTC)
    return f"{found.day} {found:%b}"


@dataclass(frozen=True)
class TrendNumber:
    """A number of the latest measurement with its unit and its position; empty if there is no number."""

    text: str
    place: str
    tone: str


@dataclass(frozen=True)
class TrendView:
    """A trend on a page: its subject, its latest numbers, its charts."""

    board: str
    where: str
    page: str
    model: str
    about: str
    met: bool
    caution: str
    runs: int
    moved: bool
    median: TrendNumber
    maximum: TrendNumber
    jitter: TrendNumber
    charts: tuple[Chart, ...]


def trend_view(trend: Trend) -> TrendView:
    """Return the view of a trend."""
    run = trend.last
    told = [] if run.scope == "network" or run.unit != "ns" else [f"{run.scope} {trend.part.name}"]
    load = [] if run.load in {"", "idle"} else [f"under load {run.load}"]
    return TrendView(
        run.board,
        run.kind,
        board_page(run.board),
        run.model,
        ", ".join([run.targets, *told, *load]),
        trend.met,
        _caution(trend),
        len(trend.runs),
        trend.moved,
        _number(trend.median, run),
        _number(trend.maximum, run),
        _number(trend.jitter, run),
        tuple(_charts(trend)),
    )


def _caution(trend: Trend) -> str:
    """Return the reason why these numbers are not execution times of the board; empty if they are."""
    if trend.met:
        return ""
    last = next(run for run in reversed(trend.runs) if not run.met)
    what = "not MET" if last.unit == "ns" else f"{last.unit}, not times"
    return f"{what}: emulated board" if last.emulated else f"{what}: {last.not_met}"


def text(value: float, run: Run) -> str:
    """Format a number of a run's parts with its unit."""
    return duration(value) if run.unit == "ns" else f"{value:,.0f}"


def _number(found: Series | None, run: Run) -> TrendNumber:
    if found is None:
        return TrendNumber("", "", "")
    tone = {NoiseLevel.ABOVE: "bad", NoiseLevel.BELOW: "good"}.get(found.place, "soft")
    return TrendNumber(text(found.values[-1], run), found.place.value, tone)


def _charts(trend: Trend) -> Iterator[Chart]:
    """Yield the charts of a trend; no chart for a single measurement."""
    moments = [_moment(run) for run in trend.runs]
    if len(set(moments)) < 2:
        return
    run, largest = trend.last, max(trend.maximum.values)
    name = "maximum (MET)" if trend.met else "maximum"
    drawn = [("new", "median", trend.median)] if trend.median else []
    title = f"{run.model}: {'execution time' if run.unit == 'ns' else run.unit}"
    yield _chart(title, moments, [*drawn, ("base", name, trend.maximum)], run, largest)
    if trend.jitter.values != (0.0,) * len(moments):
        jitter = [("new", "maximum - minimum", trend.jitter)]
        yield _chart(f"{run.model}: jitter", moments, jitter, run, max(trend.jitter.values))


def _moment(run: Run) -> float:
    try:
        return datetime.fromisoformat(run.started).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _chart(
    title: str, moments: Sequence[float], lines: Sequence[tuple[str, str, Series]], run: Run, largest: float
) -> Chart:
    unit = unit_of(largest) if run.unit == "ns" else None
    y = _values([found for _, _, found in lines], unit.name if unit else run.unit, unit.nanoseconds if unit else 1.0)
    x = Days("day, UTC", min(moments), max(moments), 0, PLOT_WIDTH)
    shapes = [*(shape for _, _, found in lines for shape in _band(found, x, y))]
    for kind, name, found in lines:
        points = [(x.at(at), y.at(value)) for at, value in zip(moments, found.values, strict=True)]
        shapes.append(Shape(kind, line(points), name))
    keys = [Key(kind, name) for kind, name, _ in lines]
    keys += [Key("gate", "noise")] if any(found.band for _, _, found in lines) else []
    about = "; ".join(f"{name} last {text(found.values[-1], run)}, {found.place.value}" for _, name, found in lines)
    where = "emulated board" if run.emulated else run.kind
    return Chart(
        title, f"{len(moments)} measurements on {run.board}, {where}: {about}", x, y, tuple(shapes), tuple(keys),
        plot_width=PLOT_WIDTH, plot_height=PLOT_HEIGHT,
    )  # fmt: skip


def _values(lines: Sequence[Series], title: str, unit: float) -> Axis:
    """Return an axis for all values and bands."""
    values = [value for found in lines for value in found.values]
    low, high = min(values), max(values)
    if low > 0 and high > WIDE * low:
        return Axis(title, low * 0.9, high * 1.1, PLOT_HEIGHT, 0, logarithmic=True, unit=unit)
    ends = [end for found in lines if found.band for end in (max(0.0, found.band.low), found.band.high)]
    low, high = min([low, *ends]), max([high, *ends])
    room = 0.08 * (high - low) or 0.02 * abs(high) or 1.0
    return Axis(title, low - room, high + room, PLOT_HEIGHT, 0, unit=unit)


def _band(found: Series, x: Axis, y: Axis) -> Iterator[Shape]:
    if found.band:
        top, bottom = y.at(found.band.high), y.at(found.band.low)
        corners = ([(x.start, top), (x.end, top)], [(x.start, bottom), (x.end, bottom)])
        yield Shape("gate", area(*corners), "noise band")
