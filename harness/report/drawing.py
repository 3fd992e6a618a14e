"""Layout of the picture of a plan: lanes, boxes, wires and hand-overs, in SVG units.

Items are lanes; layers follow each other from left to right in the order of the model, each a column with a box on the
lane of every item that computes some of it.  A hand-over is a bar over the lanes of its items.  A wire leads from every
box to each that reads it, around the boxes in between.  A long network continues on further lines.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.runs.entries import HandOverEntry, ItemEntry, LayerEntry, PlanEntry, TaskEntry

COLUMNS = 11  # at most, so that a line fits the page
LABEL_WIDTH = 158
BOX_WIDTH, BOX_HEIGHT = 72, 54
GAP = 22
LANE_HEIGHT = BOX_HEIGHT + 28
LANE_SPACE, LINE_SPACE = 6, 26
STAGE_HEIGHT = 18  # above the lanes of a pipeline
BAR_SPACE, BARS_WIDTH = 6, 12  # of one hand-over, of all side by side, at most
NAME_CHARACTERS = 10  # of one line of text in a box
LABEL_CHARACTERS = 23  # of one line of text in front of a lane


@dataclass(frozen=True)
class Lane:
    """One item on one line of the picture; `y` is its upper edge, `ran_on` in the lines that fit."""

    y: float
    ran_on: tuple[str, ...]
    item: ItemEntry


@dataclass(frozen=True)
class Box:
    """One task, a part of `layer`; `x`, `y` is its upper left corner, `name` its name in the lines that fit."""

    x: float
    y: float
    column: int
    row: int
    name: tuple[str, ...]
    task: TaskEntry
    layer: LayerEntry


@dataclass(frozen=True)
class Bar:
    """One hand-over; `stops` are the middles of its items' lanes from top to bottom, `writer` the one of its writer."""

    x: float
    width: float
    stops: tuple[float, ...]
    writer: float
    hand_over: HandOverEntry


@dataclass(frozen=True)
class Stage:
    """Start of consecutive columns of one stage; `y` is the upper edge of its line, `is_first` on that line."""

    x: float
    y: float
    number: int
    is_first: bool


@dataclass(frozen=True)
class Drawing:
    """All shapes and the sizes that they share; `wires` are SVG paths from box to box."""

    width: float
    height: float
    line_height: float
    lanes: tuple[Lane, ...]
    boxes: tuple[Box, ...]
    wires: tuple[str, ...]
    bars: tuple[Bar, ...]
    stages: tuple[Stage, ...]
    label_width: float = LABEL_WIDTH
    lane_height: float = LANE_HEIGHT
    box_width: float = BOX_WIDTH
    box_height: float = BOX_HEIGHT


def draw(plan: PlanEntry, layers: Sequence[LayerEntry]) -> Drawing:
    """Lay out `plan` and `layers` of a run document; ValueError if their names do not match."""
    grid = _Grid.from_plan(plan, len(layers))
    boxes = tuple(_boxes(grid, plan.tasks, layers))
    return Drawing(
        grid.width,
        grid.height,
        grid.line_height,
        tuple(_lanes(grid, plan.items)),
        boxes,
        tuple(dict.fromkeys(_wires(grid, boxes, layers))),
        tuple(_bars(grid, plan, boxes)),
        tuple(_stages(grid, boxes)) if plan.depth > 1 else (),
    )


def _lanes(grid: _Grid, items: Sequence[ItemEntry]) -> Iterator[Lane]:
    for line in range(grid.lines):
        for row, item in enumerate(items):
            yield Lane(grid.lane_y(line, row), _fit(item.ran_on, LABEL_CHARACTERS), item)


def _boxes(grid: _Grid, tasks: Sequence[TaskEntry], layers: Sequence[LayerEntry]) -> Iterator[Box]:
    names = [layer.name for layer in layers]
    for task in tasks:
        column, row = names.index(task.layer), grid.row(task.item)
        yield Box(grid.x(column), grid.box_y(column, row), column, row, name_lines(task.name), task, layers[column])


def _wires(grid: _Grid, boxes: Sequence[Box], layers: Sequence[LayerEntry]) -> Iterator[str]:
    names = [layer.name for layer in layers]
    for reader in boxes:
        sources = [names.index(name) for name in reader.layer.reads]
        for writer in boxes:
            if writer.column in sources:
                yield from grid.wires(writer, reader)


def _bars(grid: _Grid, plan: PlanEntry, boxes: Sequence[Box]) -> Iterator[Bar]:
    """Place each hand-over after the task of its name; barriers of one layer are side by side."""
    columns = {box.task.name: box.column for box in boxes}
    placed = [(columns[hand_over.name], hand_over) for hand_over in plan.hand_overs]
    totals, drawn = Counter(column for column, _ in placed), Counter[int]()
    for column, hand_over in placed:
        space = min(BAR_SPACE, BARS_WIDTH / totals[column])
        aside = drawn[column] - (totals[column] - 1) / 2 if plan.sync == "barrier" else 0
        drawn[column] += 1
        stops = [grid.middle(column, grid.row(item)) for item in hand_over.items]
        yield Bar(grid.after(column) + aside * space, space - 1, tuple(sorted(stops)), stops[0], hand_over)


def _stages(grid: _Grid, boxes: Sequence[Box]) -> Iterator[Stage]:
    numbers = {box.column: box.task.stage for box in boxes}
    for column, number in sorted(numbers.items()):
        is_first = column % grid.columns == 0
        if is_first or numbers[column - 1] != number:
            yield Stage(grid.x(column) - GAP / 2, grid.line_y(column // grid.columns), number, is_first)


def name_lines(name: str) -> tuple[str, ...]:
    """Break a task's name into at most two lines, after an underscore if it has one."""
    if len(name) <= NAME_CHARACTERS:
        return (name,)
    cut = name.rfind("_", 0, NAME_CHARACTERS) + 1 or NAME_CHARACTERS
    rest = name[cut:]
    return name[:cut], rest if len(rest) <= NAME_CHARACTERS else f"{rest[: NAME_CHARACTERS - 1]}…"


def _fit(text: str, characters: int) -> tuple[str, ...]:
    return tuple(textwrap.wrap(text, characters, max_lines=2, placeholder="…"))


@dataclass(frozen=True)
class _Grid:
    """Coordinates of the task of a layer (a column) in the lane of an item (a row)."""

    items: tuple[str, ...]
    columns: int
    lines: int
    top: float  # of the lanes of a line

    @classmethod
    def from_plan(cls, plan: PlanEntry, count: int) -> _Grid:
        lines = math.ceil(count / COLUMNS)
        items = tuple(item.name for item in plan.items)
        return cls(items, math.ceil(count / lines), lines, STAGE_HEIGHT if plan.depth > 1 else 0)

    @property
    def width(self) -> float:
        return LABEL_WIDTH + GAP + self.columns * (BOX_WIDTH + GAP)

    @property
    def height(self) -> float:
        return self.lines * (self.line_height + LINE_SPACE) - LINE_SPACE

    @property
    def line_height(self) -> float:
        return self.top + len(self.items) * (LANE_HEIGHT + LANE_SPACE) - LANE_SPACE

    def row(self, item: str) -> int:
        return self.items.index(item)

    def line_y(self, line: int) -> float:
        return line * (self.line_height + LINE_SPACE)

    def lane_y(self, line: int, row: int) -> float:
        return self.line_y(line) + self.top + row * (LANE_HEIGHT + LANE_SPACE)

    def x(self, column: int) -> float:
        return LABEL_WIDTH + GAP + column % self.columns * (BOX_WIDTH + GAP)

    def box_y(self, column: int, row: int) -> float:
        return self.lane_y(column // self.columns, row) + (LANE_HEIGHT - BOX_HEIGHT) / 2

    def middle(self, column: int, row: int) -> float:
        return self.box_y(column, row) + BOX_HEIGHT / 2

    def after(self, column: int) -> float:
        """Return the coordinate in the gap after a box that leaves room for an arrow's head before the next one."""
        return self.x(column) + BOX_WIDTH + 0.36 * GAP

    def wires(self, writer: Box, reader: Box) -> tuple[str, ...]:
        """Return the wire to a box of a later column; two pieces if that is the next column and starts a line."""
        start, end = writer.y + BOX_HEIGHT / 2, reader.y + BOX_HEIGHT / 2
        leave = f"M{writer.x + BOX_WIDTH:g} {start:g}H{self.after(writer.column):g}"
        if reader.column > writer.column + 1:
            beside, before = self._beside(writer.column, end), reader.x - 0.36 * GAP  # where no wire leaves a box
            return (f"{leave}V{beside:g}H{before:g}V{end:g}H{reader.x:g}",)
        if reader.column % self.columns:
            return (f"{leave}V{end:g}H{reader.x:g}",)
        return f"{leave}V{end:g}H{self.width:g}", f"M{LABEL_WIDTH} {end:g}H{reader.x:g}"

    def _beside(self, column: int, middle: float) -> float:
        """Return the height above or below the boxes around `middle`; wires of neighbouring writers do not touch."""
        distance = BOX_HEIGHT / 2 + 4 * (1 + column // 2 % 3)
        return middle + distance if column % 2 else middle - distance
