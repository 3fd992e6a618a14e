"""The comparison as a picture: where rows, marks and the axis lie, in SVG units.

One row a contender, the fastest first; time runs to the right on a logarithmic axis.  A line leads from the minimum to
a dot at the median; dots are filled for int8 and open for float.  The bounds are dashed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.core.errors import RequestError
from peers.report import Findings, Row, Times, ratios, setting

LABEL_WIDTH, AXIS_WIDTH, TIME_WIDTH, RATIO_WIDTH = 292, 420, 150, 62
ROW_HEIGHT, TOP, BOTTOM = 26, 66, 74
MARGIN = 1.25  # the axis begins and ends this factor beyond what it shows
DECADE_TICKS = (1, 2, 5)


@dataclass(frozen=True)
class Mark:
    """One row; `minimum` and `median` are places on the axis, None where it was not measured and `text` says why."""

    y: float
    row: Row
    minimum: float | None
    median: float | None
    text: str
    ratio: str = ""


@dataclass(frozen=True)
class Line:
    """A place on the axis with its label: a tick, or a bound, whose label stands at `y`."""

    x: float
    label: str
    y: float = 0


@dataclass(frozen=True)
class Picture:
    """All shapes and the sizes that they share."""

    title: str
    caption: str
    bottom: float
    height: float
    marks: tuple[Mark, ...]
    ticks: tuple[Line, ...]
    bounds: tuple[Line, ...]
    width: float = LABEL_WIDTH + AXIS_WIDTH + TIME_WIDTH + RATIO_WIDTH
    label_width: float = LABEL_WIDTH
    time_end: float = LABEL_WIDTH + AXIS_WIDTH + TIME_WIDTH
    top: float = TOP
    row_height: float = ROW_HEIGHT


@dataclass(frozen=True)
class _Axis:
    """Logarithmic, between two times in nanoseconds."""

    low: float
    high: float

    def x(self, ns: float) -> float:
        share = math.log(ns / self.low) / math.log(self.high / self.low)
        return round(LABEL_WIDTH + AXIS_WIDTH * share, 1)

    def ticks(self) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)))
        steps = [step * 10.0**decade for decade in decades for step in DECADE_TICKS]
        return [step for step in steps if self.low <= step <= self.high]


def svg(findings: Findings) -> str:
    """The picture as a file that stands alone; RequestError where nothing was measured."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("picture.svg.jinja").render(picture=draw(findings))


def draw(findings: Findings) -> Picture:
    """Lay out the rows and the bounds that are known; RequestError where nothing was measured."""
    times = [row.times for row in findings.rows if row.times]
    bounds = [bound for bound in findings.bounds if bound.ns]
    if not times:
        raise RequestError("no contender was measured, so that there is no picture", "the table says why")
    shown = [ns for each in times for ns in (each.minimum_ns, each.median_ns)] + [bound.ns or 0 for bound in bounds]
    axis = _Axis(min(shown) / MARGIN, max(shown) * MARGIN)
    bottom = TOP + ROW_HEIGHT * len(findings.rows)
    return Picture(
        f"One inference of {findings.shape}: one vector, one thread, one core",
        setting(findings),
        bottom,
        bottom + BOTTOM,
        tuple(_mark(index, row, axis, findings.base) for index, row in enumerate(findings.ordered)),
        tuple(Line(axis.x(ns), _tick(ns)) for ns in axis.ticks()),
        tuple(
            Line(axis.x(bound.ns or 0), f"{bound.name}: {bound.ns:.3g} ns", TOP - 12 * (len(bounds) - index))
            for index, bound in enumerate(bounds)
        ),
    )


def _mark(index: int, row: Row, axis: _Axis, base: Times | None) -> Mark:
    y = TOP + ROW_HEIGHT * (index + 0.5)
    if row.times is None:
        return Mark(y, row, None, None, row.failure)
    both = ratios(row.times, base)
    text = f"{row.times.minimum_ns:,} ({row.times.median_ns:,}) ns"
    places = axis.x(row.times.minimum_ns), axis.x(row.times.median_ns)
    return Mark(y, row, *places, text, f"{both[0]:.2f} x" if both else "")


def _tick(ns: float) -> str:
    return f"{ns:g} ns" if ns < 1000 else f"{ns / 1000:g} µs"
