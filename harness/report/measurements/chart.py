"""Pictures of numbers: axes with round ticks, paths, marks and a legend, in SVG units.

A chart has a plot, from (0, 0) at its upper left corner to (width, height), in which its paths lie, and around that its
axes.  Everything that a script needs to zoom stands in the attributes that the template gives to the axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 500, 190
TOP, BOTTOM, LEFT, RIGHT = 52, 42, 66, 30  # around the plot
TITLE = 22  # what is above a plot without legend and marks
TICKS = 6  # about
LABEL_WIDTH = 7.0  # of a character
WIDE = 8.0  # times the lowest number: from here on an axis of times is logarithmic


@dataclass(frozen=True)
class Tick:
    """A round number of an axis: its place and what stands there."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """The numbers `low` to `high` from place `start` to `end`; labels are in units of `unit` of these numbers.

    ValueError for a range that is empty, or not above 0 on a logarithmic axis.
    """

    title: str
    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False
    unit: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.logarithmic and self.low <= 0):
            raise ValueError(f"no axis from {self.low} to {self.high}")

    def at(self, value: float) -> float:
        """The place of a value, at the nearer end for one beyond the axis."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(min(max(value, self.low), self.high)) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def value(self, at: float) -> float:
        """The value at a place: the inverse of `at`."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        scaled = low + (at - self.start) / (self.end - self.start) * (high - low)
        return 10**scaled if self.logarithmic else scaled

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The round numbers of the axis, ascending."""
        low, high = self.low / self.unit, self.high / self.unit
        numbers = list(_powers(low, high)) if self.logarithmic else []
        numbers = numbers if len(numbers) > 1 else list(_steps(low, high))
        return tuple(Tick(round(self.at(number * self.unit), 1), _label(number)) for number in numbers)


def _label(value: float) -> str:
    return f"{value:,.10g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.0e}".replace("e-0", "e-")


def _powers(low: float, high: float) -> Iterator[float]:
    """Powers of ten, every second or third where there are many, twos and fives too where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    for exponent in range(first, last + 1, max(1, (last - first) // TICKS)):
        for factor in factors:
            number = factor * 10.0**exponent
            if low * (1 - 1e-9) <= number <= high * (1 + 1e-9):
                yield number


def _steps(low: float, high: float) -> Iterator[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    decade = 10.0 ** math.floor(math.log10((high - low) / TICKS))
    step = next(decade * factor for factor in (1, 2, 5, 10) if decade * factor * TICKS >= high - low)
    for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield index * step


@dataclass(frozen=True)
class Rows:
    """A vertical axis of names, one below the other, each `pitch` high."""

    names: tuple[str, ...]
    pitch: float = 24
    title: str = ""

    @property
    def height(self) -> float:
        """Of all of them."""
        return self.pitch * len(self.names)

    def middle(self, row: int) -> float:
        """Where a row's line runs."""
        return (row + 0.5) * self.pitch

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The names, each at the middle of its row."""
        return tuple(Tick(self.middle(row), name) for row, name in enumerate(self.names))


@dataclass(frozen=True)
class Shape:
    """A path in the plot, of a `kind` that the style sheet knows; `about` is shown where a pointer rests on it."""

    kind: str
    path: str
    about: str = ""
    width: float | None = None  # of its line in units of the plot, where it grows with the zoom


@dataclass(frozen=True)
class Mark:
    """Words above the plot, at a place of the horizontal axis."""

    x: float
    text: str


@dataclass(frozen=True)
class Key:
    """One entry of the legend: the kind of a shape and its meaning."""

    kind: str
    text: str
    x: float = 0


@dataclass(frozen=True)
class Chart:
    """A whole picture; `about` says in words what it shows, for those who do not see it."""

    title: str
    about: str
    x: Axis
    y: Axis | Rows
    shapes: tuple[Shape, ...]
    keys: tuple[Key, ...] = ()
    marks: tuple[Mark, ...] = ()
    plot_width: float = WIDTH
    plot_height: float = HEIGHT
    left: float = LEFT
    top: float = TOP

    @property
    def width(self) -> float:
        """With labels on the left."""
        return self.left + self.plot_width + RIGHT

    @property
    def height(self) -> float:
        """With title, legend and axis."""
        return self.top + self.plot_height + BOTTOM

    @property
    def legend(self) -> tuple[Key, ...]:
        """The keys, placed one behind the other."""
        lengths = [22 + LABEL_WIDTH * len(key.text) for key in self.keys]
        return tuple(Key(key.kind, key.text, sum(lengths[:index])) for index, key in enumerate(self.keys))


def horizontal(title: str, low: float, high: float, *, unit: float = 1, logarithmic: bool = False) -> Axis:
    """An axis of the usual width; a logarithmic one begins at 1 or above."""
    low = max(low, 1.0) if logarithmic else low
    return Axis(title, low, high if high > low else low + 1, 0, WIDTH, logarithmic, unit)


def vertical(title: str, low: float, high: float, *, unit: float = 1, logarithmic: bool = False) -> Axis:
    """The same, of the usual height."""
    return Axis(title, low, high if high > low else low + 1, HEIGHT, 0, logarithmic, unit)


def line(points: Iterable[tuple[float, float]]) -> str:
    """A path through all points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def area(upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]]) -> str:
    """A path around what lies between two lines."""
    return line([*upper, *reversed(lower)]) + "z"


def number(value: float) -> str:
    """A coordinate, to a tenth of a unit."""
    return f"{round(value, 1):g}"
