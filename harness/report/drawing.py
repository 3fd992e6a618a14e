"""The plan as a picture: where lanes, boxes, wires and barriers lie, in SVG units.

Items are lanes, layers are boxes from left to right in the order of the model, a barrier is a bar between the lanes
of the two items that wait for each other.  A long network continues on further lines, as music does.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COLUMNS = 11  # at most, so that a line fits the page
BOX_WIDTH, BOX_HEIGHT = 74, 48
GAP = 18
MARGIN = 14
LABEL_HEIGHT = 26
LANE_HEIGHT = LABEL_HEIGHT + BOX_HEIGHT + 14
LANE_SPACE, LINE_SPACE = 8, 26
NAME_CHARACTERS = 10  # of one line of text in a box


@dataclass(frozen=True)
class Lane:
    """One item on one line of the picture; `y` is its upper edge."""

    y: float
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
    """All shapes; `wires` are SVG paths from layer to layer."""

    width: float
    height: float
    lanes: tuple[Lane, ...]
    boxes: tuple[Box, ...]
    wires: tuple[str, ...]
    bars: tuple[Bar, ...]


def draw(plan: Mapping[str, Any], layers: list[Mapping[str, Any]]) -> Drawing:
    """Lay out `plan` and `layers` of a run document; KeyError if a layer or barrier names no item of the plan."""
    grid = _Grid.of(plan, len(layers))
    rows = [grid.row(layer["item"]) for layer in layers]
    index = {layer["name"]: position for position, layer in enumerate(layers)}
    return Drawing(
        grid.width,
        grid.height,
        tuple(
            Lane(grid.lane_y(line, row), item) for line in range(grid.lines) for row, item in enumerate(plan["items"])
        ),
        tuple(
            Box(grid.x(position), grid.box_y(position, row), wrap(layer["name"]), layer)
            for position, (row, layer) in enumerate(zip(rows, layers, strict=True))
        ),
        tuple(wire for position in range(len(rows) - 1) for wire in grid.wires(position, rows)),
        tuple(grid.bar(index[barrier["name"]], barrier) for barrier in plan["barriers"]),
    )


def wrap(name: str) -> tuple[str, ...]:
    """A layer's name in at most two lines, broken behind an underscore where it has one."""
    parts = textwrap.wrap(name.replace("_", "_ "), NAME_CHARACTERS + 1, max_lines=2, placeholder="…")
    return tuple(part.replace("_ ", "_") for part in parts)


@dataclass(frozen=True)
class _Grid:
    """Column by column, line by line: where the layer at a position stands in the lane of row `row`."""

    items: tuple[str, ...]
    columns: int
    lines: int

    @classmethod
    def of(cls, plan: Mapping[str, Any], count: int) -> _Grid:
        lines = math.ceil(count / COLUMNS)
        return cls(tuple(item["name"] for item in plan["items"]), math.ceil(count / lines), lines)

    @property
    def width(self) -> float:
        return 2 * MARGIN + self.columns * (BOX_WIDTH + GAP)

    @property
    def height(self) -> float:
        return self.lines * self._line_height - LINE_SPACE

    @property
    def _line_height(self) -> float:
        return len(self.items) * (LANE_HEIGHT + LANE_SPACE) - LANE_SPACE + LINE_SPACE

    def row(self, item: str) -> int:
        if item not in self.items:
            raise KeyError(item)
        return self.items.index(item)

    def lane_y(self, line: int, row: int) -> float:
        return line * self._line_height + row * (LANE_HEIGHT + LANE_SPACE)

    def x(self, position: int) -> float:
        return MARGIN + GAP / 2 + position % self.columns * (BOX_WIDTH + GAP)

    def box_y(self, position: int, row: int) -> float:
        return self.lane_y(position // self.columns, row) + LABEL_HEIGHT

    def _middle(self, position: int, row: int) -> float:
        return self.box_y(position, row) + BOX_HEIGHT / 2

    def _behind(self, position: int) -> float:
        """The middle of the gap behind a box."""
        return self.x(position) + BOX_WIDTH + GAP / 2

    def wires(self, position: int, rows: list[int]) -> tuple[str, ...]:
        """From the box at `position` to the next one; two pieces where the next one begins a line."""
        after, right = position + 1, self.x(position) + BOX_WIDTH
        start, turn, end = (
            self._middle(position, rows[position]),
            self._behind(position),
            self._middle(position, rows[after]),
        )
        if after % self.columns:
            return (f"M{right:g} {start:g}H{turn:g}V{end:g}H{self.x(after):g}",)
        continued = self._middle(after, rows[after])
        return f"M{right:g} {start:g}H{turn:g}V{end:g}H{self.width:g}", f"M0 {continued:g}H{self.x(after):g}"

    def bar(self, position: int, barrier: Mapping[str, Any]) -> Bar:
        giver, taker = (self._middle(position, self.row(item)) for item in barrier["items"])
        return Bar(self._behind(position), giver, taker, barrier)
