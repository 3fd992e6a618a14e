"""Charts: axes with round ticks, paths, texts and a legend, in SVG units.

A chart has a plot, from (0, 0) at its upper left corner to (width, height), which contains its paths; the axes are
around the plot.  The template `chart.svg.jinja` gives the axis the attributes that the zoom script reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from harness.core.time_units import unit_of
from harness.report.page import environment

WIDTH, HEIGHT = 500, 190
TOP, BOTTOM, LEFT, RIGHT = 52, 42, 66, 30  # around the plot
TITLE = 22  # space above a plot without legend and marks
CHARACTER_WIDTH = 7.0
WIDE = 8.0  # ratio of the highest to the lowest number from which an axis of times is logarithmic


class Tick(NamedTuple):
    """A label of an axis and its coordinate."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """Map the numbers `low` to `high` to the coordinates `start` to `end`; labels are in multiples of `unit`.

    ValueError for an empty range, or for values up to 0 on a logarithmic axis.
    """

    title: str
    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False
    unit: float = 1.0
    count: int = 6  # of ticks, approximately

    has_grid: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.logarithmic and self.low <= 0):
            raise ValueError(f"no axis from {self.low} to {self.high}")

    def at(self, value: float) -> float:
        """Return the coordinate of a value; a value outside the axis has the coordinate of the nearer end."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(min(max(value, self.low), self.high)) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def value(self, at: float) -> float:
        """Return the value at a coordinate: the inverse of `at`."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        scaled = low + (at - self.start) / (self.end - self.start) * (high - low)
        return 10**scaled if self.logarithmic else scaled

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The round numbers of the axis, ascending."""
        low, high = self.low / self.unit, self.high / self.unit
        numbers = list(_powers(low, high, self.count)) if self.logarithmic else []
        numbers = numbers if len(numbers) > 1 else list(_multiples(low, high, self.count))
        return tuple(Tick(round(self.at(number * self.unit), 2), _label(number)) for number in numbers)


def _label(value: float) -> str:
    return f"{value:,.10g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.0e}".replace("e-0", "e-")


def _powers(low: float, high: float, count: int) -> Iterator[float]:
    """Yield powers of ten: every second or third over many decades, also their 2- and 5-fold over few decades."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    for exponent in range(first, last + 1, max(1, (last - first) // count)):
        for factor in factors:
            number = factor * 10.0**exponent
            if low * (1 - 1e-9) <= number <= high * (1 + 1e-9):
                yield number


def _multiples(low: float, high: float, count: int) -> Iterator[float]:
    """Yield multiples of 1, 2 or 5 times a power of ten."""
    decade = 10.0 ** math.floor(math.log10((high - low) / count))
    step = next(decade * factor for factor in (1, 2, 5, 10) if decade * factor * count >= high - low)
    for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield index * step


@dataclass(frozen=True)
class Labels:
    """Fixed labels in place of an axis."""

    ticks: tuple[Tick, ...] = ()
    title: str = ""

    has_grid: ClassVar[bool] = False


@dataclass(frozen=True)
class Rows:
    """A vertical axis of names, one below the other, each `pitch` high."""

    names: tuple[str, ...]
    pitch: float = 24
    title: str = ""
    has_grid: bool = True

    @property
    def height(self) -> float:
        """The height of all rows."""
        return self.pitch * len(self.names)

    def middle(self, row: int) -> float:
        """Return the vertical coordinate of the middle of a row."""
        return (row + 0.5) * self.pitch

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The names, each at the middle of its row."""
        return tuple(Tick(self.middle(row), name) for row, name in enumerate(self.names))


@dataclass(frozen=True)
class Shape:
    """A path in the plot; the style sheet knows its `kind`, and `about` is its tooltip."""

    kind: str
    path: str
    about: str = ""
    width: float | None = None  # of the line in units of the plot, if it grows with the zoom


@dataclass(frozen=True)
class Mark:
    """A text; without `anchor` it is centred at `x`, or ends inside the plot near its ends."""

    x: float
    text: str
    y: float = -4  # above the plot
    anchor: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Key:
    """An entry of the legend: the kind of a shape and its meaning."""

    kind: str
    text: str
    x: float = 0


@dataclass(frozen=True)
class Chart:
    """A complete picture; `about` describes it in words for screen readers, `caption` is the text below it."""

    title: str
    about: str
    x: Axis | Labels
    y: Axis | Rows | Labels
    shapes: tuple[Shape, ...]
    keys: tuple[Key, ...] = ()
    marks: tuple[Mark, ...] = ()
    plot_width: float = WIDTH
    plot_height: float = HEIGHT
    left: float = LEFT
    top: float = TOP
    right: float = RIGHT
    bottom: float = BOTTOM
    caption: str = ""

    @property
    def width(self) -> float:
        """The width of the plot and its margins."""
        return self.left + self.plot_width + self.right

    @property
    def height(self) -> float:
        """The height of title, legend, plot and axis."""
        return self.top + self.plot_height + self.bottom

    @property
    def legend(self) -> tuple[Key, ...]:
        """The keys, placed one after the other."""
        lengths = [22 + CHARACTER_WIDTH * len(key.text) for key in self.keys]
        return tuple(Key(key.kind, key.text, sum(lengths[:index])) for index, key in enumerate(self.keys))

    def svg(self) -> str:
        """Return an SVG file with its own styles."""
        return environment().get_template("chart.svg.jinja").render(chart=self, is_file=True)


def horizontal(title: str, low: float, high: float, *, unit: float = 1, logarithmic: bool = False) -> Axis:
    """Return an axis of the default width; a logarithmic one starts at 1 or above."""
    low = max(low, 1.0) if logarithmic else low
    return Axis(title, low, high if high > low else low + 1, 0, WIDTH, logarithmic, unit)


def vertical(title: str, low: float, high: float, *, unit: float = 1, logarithmic: bool = False) -> Axis:
    """Return an axis of the default height."""
    return Axis(title, low, high if high > low else low + 1, HEIGHT, 0, logarithmic, unit)


def time_axis(
    title: str, low_ns: float, high_ns: float, start: float = 0, end: float = WIDTH, *, logarithmic: bool | None = None
) -> Axis:
    """Return an axis of times in ns, labelled in the unit that suits them; by default logarithmic for a wide range."""
    wide = high_ns > WIDE * max(low_ns, 1) if logarithmic is None else logarithmic
    unit = unit_of(math.sqrt(max(low_ns, 1) * high_ns) * 10 if wide else high_ns)
    low_ns = max(low_ns, 1.0) if wide else low_ns
    return Axis(f"{title}, {unit.name}", low_ns, max(high_ns, low_ns + 1), start, end, wide, unit.nanoseconds)


def line(points: Iterable[tuple[float, float]]) -> str:
    """Return a path through all points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def area(upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]]) -> str:
    """Return a path around the area between two lines."""
    return line([*upper, *reversed(lower)]) + "z"


def rectangle(x: float, y: float, width: float, height: float) -> str:
    """Return a path around a rectangle, with six significant digits."""
    return f"M{x:g} {y:g}h{width:g}v{height:g}h{-width:g}z"


def number(value: float) -> str:
    """Format a coordinate to a tenth of a unit."""
    return f"{round(value, 1):g}"
