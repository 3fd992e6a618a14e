"""The plan as a picture: where lanes, boxes, wires and barriers lie, in SVG units.

Items are lanes, layers are boxes from left to right in the order of the model, a barrier is a bar between the lanes
of the two items that wait for each other.  A wire leads from every layer to each that reads it, around the boxes in
between.  A long network continues on further lines, as music does.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COLUMNS = 11  # at most, so that a line fits the page
LABEL_WIDTH = 158
BOX_WIDTH, BOX_HEIGHT = 72, 54
GAP = 22
LANE_HEIGHT = BOX_HEIGHT + 28
LANE_SPACE, LINE_SPACE = 6, 26
NAME_CHARACTERS = 10  # of one line of text in a box
LABEL_CHARACTERS = 23  # of one line of text in front of a lane


@dataclass(frozen=True)
class Lane:
    """One item on one line of the picture; `y` is its upper edge, `ran_on` in the lines that fit."""

    y: float
    ran_on: tuple[str, ...]
    item: Mapping[str, Any]


@dataclass(frozen=True)
class Box:
    """One layer; `x`, `y` is its upper left corner, `name` its name in the lines that fit."""

    x: float
    y: float
    name: tuple[str, ...]
    layer: Mapping[str, Any]


@dataclass(frozen=True)
class Bar:
    """One barrier, drawn from the giver's lane (`y1`) to the taker's (`y2`)."""

    x: float
    y1: float
    y2: float
    barrier: Mapping[str, Any]


@dataclass(frozen=True)
class Drawing:
    """All shapes and the sizes that they share; `wires` are SVG paths from layer to layer."""

    width: float
    height: float
    lanes: tuple[Lane, ...]
    boxes: tuple[Box, ...]
    wires: tuple[str, ...]
    bars: tuple[Bar, ...]
    label_width: float = LABEL_WIDTH
    lane_height: float = LANE_HEIGHT
    box_width: float = BOX_WIDTH
    box_height: float = BOX_HEIGHT


def draw(plan: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]) -> Drawing:
    """Lay out `plan` and `layers` of a run document; ValueError if one names what the other does not have."""
    grid = _Grid.of(plan, len(layers))
    rows = [grid.row(layer["item"]) for layer in layers]
    names = [layer["name"] for layer in layers]
    reads = [(names.index(name), reader) for reader, layer in enumerate(layers) for name in layer["reads"]]
    return Drawing(
        grid.width,
        grid.height,
        tuple(_lanes(grid, plan["items"])),
        tuple(_boxes(grid, rows, layers)),
        tuple(wire for writer, reader in reads for wire in grid.wires(writer, reader, rows)),
        tuple(_bars(grid, plan["barriers"], names)),
    )


def _lanes(grid: _Grid, items: Sequence[Mapping[str, Any]]) -> Iterator[Lane]:
    for line in range(grid.lines):
        for row, item in enumerate(items):
            yield Lane(grid.lane_y(line, row), _fit(item["ran_on"], LABEL_CHARACTERS), item)


def _boxes(grid: _Grid, rows: Sequence[int], layers: Sequence[Mapping[str, Any]]) -> Iterator[Box]:
    for position, (row, layer) in enumerate(zip(rows, layers, strict=True)):
        yield Box(grid.x(position), grid.box_y(position, row), name_lines(layer["name"]), layer)


def _bars(grid: _Grid, barriers: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Bar]:
    """A barrier bears the name of the layer behind which it stands."""
    for barrier in barriers:
        position = names.index(barrier["name"])
        giver, taker = (grid.middle(position, grid.row(item)) for item in barrier["items"])
        yield Bar(grid.behind(position), giver, taker, barrier)


def name_lines(name: str) -> tuple[str, ...]:
    """A layer's name in at most two lines, broken behind an underscore where it has one."""
    if len(name) <= NAME_CHARACTERS:
        return (name,)
    cut = name.rfind("_", 0, NAME_CHARACTERS) + 1 or NAME_CHARACTERS
    rest = name[cut:]
    return name[:cut], rest if len(rest) <= NAME_CHARACTERS else f"{rest[: NAME_CHARACTERS - 1]}…"


def _fit(text: str, characters: int) -> tuple[str, ...]:
    return tuple(textwrap.wrap(text, characters, max_lines=2, placeholder="…"))


@dataclass(frozen=True)
class _Grid:
    """Column by column, line by line: where the layer at a position stands in the lane of an item (a row)."""

    items: tuple[str, ...]
    columns: int
    lines: int

    @classmethod
    def of(cls, plan: Mapping[str, Any], count: int) -> _Grid:
        lines = math.ceil(count / COLUMNS)
        return cls(tuple(item["name"] for item in plan["items"]), math.ceil(count / lines), lines)

    @property
    def width(self) -> float:
        return LABEL_WIDTH + GAP + self.columns * (BOX_WIDTH + GAP)

    @property
    def height(self) -> float:
        return self.lines * self._line_height - LINE_SPACE

    @property
    def _line_height(self) -> float:
        return len(self.items) * (LANE_HEIGHT + LANE_SPACE) - LANE_SPACE + LINE_SPACE

    def row(self, item: str) -> int:
        return self.items.index(item)

    def lane_y(self, line: int, row: int) -> float:
        return line * self._line_height + row * (LANE_HEIGHT + LANE_SPACE)

    def x(self, position: int) -> float:
        return LABEL_WIDTH + GAP + position % self.columns * (BOX_WIDTH + GAP)

    def box_y(self, position: int, row: int) -> float:
        return self.lane_y(position // self.columns, row) + (LANE_HEIGHT - BOX_HEIGHT) / 2

    def middle(self, position: int, row: int) -> float:
        return self.box_y(position, row) + BOX_HEIGHT / 2

    def behind(self, position: int) -> float:
        """In the gap behind a box, with room for an arrow's head before the next one."""
        return self.x(position) + BOX_WIDTH + 0.36 * GAP

    def wires(self, writer: int, reader: int, rows: Sequence[int]) -> tuple[str, ...]:
        """From one box to a later one; two pieces where that is the next one and begins a line."""
        start, end = self.middle(writer, rows[writer]), self.middle(reader, rows[reader])
        leave = f"M{self.x(writer) + BOX_WIDTH:g} {start:g}H{self.behind(writer):g}"
        if reader > writer + 1:
            return (f"{leave}V{self._beside(writer, end):g}H{self._before(reader):g}V{end:g}H{self.x(reader):g}",)
        if reader % self.columns:
            return (f"{leave}V{end:g}H{self.x(reader):g}",)
        return f"{leave}V{end:g}H{self.width:g}", f"M{LABEL_WIDTH} {end:g}H{self.x(reader):g}"

    def _before(self, position: int) -> float:
        """In the gap before a box, where no wire leaves the box on the left."""
        return self.x(position) - 0.36 * GAP

    def _beside(self, writer: int, middle: float) -> float:
        """Above or below the boxes around `middle`; wires of writers that stand near each other do not touch."""
        distance = BOX_HEIGHT / 2 + 4 * (1 + writer // 2 % 3)
        return middle + distance if writer % 2 else middle - distance
