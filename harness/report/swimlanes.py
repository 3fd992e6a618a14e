"""Layout of a trace and its schedule: items are lanes, tasks boxes, barriers bars, in SVG units.

The upper half shows the order of the steps in the plan, without times; the lower half shows the measurement on an axis
of time, with waiting at hand-overs hatched.  In a pipeline several executions overlap, each in its own shade; thin
lines separate the ticks of the schedule.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from harness.core.time_units import unit_of
from harness.report.chart import Axis, Tick
from harness.report.drawing import LABEL_WIDTH, name_lines

AREA_WIDTH = 1056  # right of the labels
LANE_HEIGHT, LANE_SPACE = 52, 6
BOX_HEIGHT = 44
TITLE_HEIGHT, HALF_SPACE, AXIS_HEIGHT = 26, 24, 36
CHARACTER_WIDTH, PADDING = 6.9, 4
TASK_WIDTH = 100  # in the schedule, at most
CROSSING = 0.3  # width of a hand-over or the end of a tick in the schedule, relative to a task
SHADES = 5
THINNEST_BAR, WIDEST_BAR = 1.5, 5
AXIS_TICKS = 10  # approximately

TASK, BARRIER, FLAG = "layer", "barrier", "flag"


@dataclass(frozen=True)
class Step:
    """A step of an item in one execution, from `begin` to `end`: in ns, or in the schedule in widths of a task."""

    item: str
    kind: str
    name: str
    execution: int
    begin: float
    end: float


@dataclass(frozen=True)
class Box:
    """A task or the waiting time at a hand-over.

    `lines` is the text that fits into it, `number` that of the task in the plan, `shade` one of SHADES.  `launch` are
    the tasks of a launch that the box represents; empty for a single task.
    """

    x: float
    y: float
    width: float
    step: Step
    lines: tuple[str, ...] = ()
    number: int = 0
    shade: int = 0
    launch: tuple[str, ...] = ()

    @property
    def is_named(self) -> bool:
        """Return whether the name fits, and not only its number."""
        return bool(self.lines) and self.lines[0] != str(self.number)


@dataclass(frozen=True)
class Bar:
    """A barrier at the arrival of the last of its items; `stops` are the middles of their lanes, from top to bottom."""

    x: float
    stops: tuple[float, ...]
    name: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Arrow:
    """A flag, from the point where it is set to the point where a reader continues."""

    x1: float
    y1: float
    x2: float
    y2: float
    name: str
    items: tuple[str, str]


@dataclass(frozen=True)
class Half:
    """The schedule or the trace: `y` is its upper edge, `lanes` are the items with the upper edges of their lanes.

    `rules` are where ticks begin.
    """

    y: float
    lanes: tuple[tuple[str, float], ...]
    boxes: tuple[Box, ...]
    waits: tuple[Box, ...]
    bars: tuple[Bar, ...]
    arrows: tuple[Arrow, ...]
    rules: tuple[float, ...]
    bar_width: float

    @property
    def bottom(self) -> float:
        """The lower edge of the last lane."""
        return self.lanes[-1][1] + LANE_HEIGHT


@dataclass(frozen=True)
class Swimlanes:
    """Both halves; `axis` are places and labels below the second, `executions` the numbers shown and their shades.

    `unnamed` are the tasks whose names do not fit into their boxes of the schedule, by number.  `unit` is that of the
    axis, `launches` are the tasks of each launch that is one box of the second half.
    """

    schedule: Half
    trace: Half
    axis: tuple[Tick, ...]
    executions: tuple[tuple[int, int], ...]
    unnamed: tuple[tuple[int, str], ...]
    duration_ns: int
    unit: str
    launches: tuple[tuple[str, ...], ...]
    height: float
    width: float = LABEL_WIDTH + AREA_WIDTH + 1  # half of a line's width, rounded up
    label_width: float = LABEL_WIDTH
    lane_height: float = LANE_HEIGHT
    box_height: float = BOX_HEIGHT


def draw(picture: Mapping[str, Any], launches: Sequence[tuple[str, ...]] = ()) -> Swimlanes:
    """Lay out the `picture` of a run document's `conformance`; ValueError if its schedule does not end.

    `launches` are the tasks of each launch, whose single tasks have no time of their own.
    """
    planned, planned_ticks = _planned(picture)
    measured, measured_ticks = _measured(picture)
    sheet = _Sheet(picture, planned)
    unit = min(TASK_WIDTH, AREA_WIDTH / max(step.end for step in planned))
    schedule = sheet.half(0, unit, planned, planned_ticks)
    time_unit, end = unit_of(picture["span_ns"]), LABEL_WIDTH + AREA_WIDTH
    axis = Axis("", 0, picture["span_ns"], LABEL_WIDTH, end, unit=time_unit.nanoseconds, count=AXIS_TICKS)
    trace = sheet.half(
        schedule.bottom + HALF_SPACE, AREA_WIDTH / picture["span_ns"], measured, measured_ticks, launches
    )
    return Swimlanes(
        schedule,
        dataclasses.replace(trace, bar_width=schedule.bar_width),
        axis.ticks,
        tuple(sheet.shades.items()),
        tuple(sorted({(box.number, box.step.name) for box in schedule.boxes if not box.is_named})),
        picture["duration_ns"],
        time_unit.name,
        tuple(launches),
        trace.bottom + AXIS_HEIGHT,
    )


def _planned(picture: Mapping[str, Any]) -> tuple[list[Step], list[float]]:
    """Return all steps of the schedule in order, each as early as possible, and the starts of the later ticks."""
    steps: list[Step] = []
    begins: list[float] = []
    for tick in _ticks(picture):
        begins.append(max(step.end for step in steps) + CROSSING if steps else 0.0)
        steps += _Tick(picture, tick, begins[-1]).steps()
    return steps, begins[1:]


def _measured(picture: Mapping[str, Any]) -> tuple[list[Step], list[float]]:
    """Return the steps of the trace; and the starts of all ticks but the first."""
    stages = {(step["kind"], step["name"]): step["stage"] for item in picture["items"] for step in item["steps"]}
    begins = dict.fromkeys(_ticks(picture), math.inf)
    steps = []
    for event in picture["events"]:
        kind, name, execution = event["kind"], event["name"], event["execution"]
        steps.append(Step(event["item"], kind, name, execution, event["begin_ns"], event["end_ns"]))
        tick = execution + stages[kind, name]
        begins[tick] = min(begins[tick], event["begin_ns"])
    return steps, list(begins.values())[1:]


def _ticks(picture: Mapping[str, Any]) -> range:
    """Return the ticks of the executions shown."""
    return range(picture["executions"][0], picture["executions"][-1] + picture["depth"])


class _Tick:
    """Simulation of one tick of the schedule."""

    def __init__(self, picture: Mapping[str, Any], tick: int, begin: float) -> None:
        self.parties = {hand_over["name"]: hand_over["items"] for hand_over in picture["hand_overs"]}
        self.at = {item["name"]: begin for item in picture["items"]}
        self.raised: dict[str, float] = {}
        self.left = {
            item["name"]: [
                (step["kind"], step["name"], tick - step["stage"])
                for step in item["steps"]
                if tick - step["stage"] in picture["executions"]
            ]
            for item in picture["items"]
        }

    def steps(self) -> list[Step]:
        """Return all steps; ValueError if the items deadlock."""
        found: list[Step] = []
        while any(self.left.values()):
            taken = [step for item in self.left if self.left[item] for step in self._take(item)]
            if not taken:
                raise ValueError("the schedule of the picture does not end")
            found += taken
        return found

    def _take(self, item: str) -> list[Step]:
        """Return an item's next step, at a barrier that of all its items; empty if it must wait."""
        kind, name, execution = self.left[item][0]
        together = self.parties[name] if kind == BARRIER else [item]
        if any(self.left[other][:1] != self.left[item][:1] for other in together):
            return []
        begin = max(self.at[other] for other in together)
        if kind == FLAG and item == self.parties[name][0]:
            self.raised[name] = begin
        elif kind == FLAG and name not in self.raised:
            return []
        elif kind == FLAG:
            begin = max(begin, self.raised[name])
        end = begin + (1 if kind == TASK else CROSSING)
        for other in together:
            self.at[other] = end
            self.left[other].pop(0)
        shown = begin + CROSSING / 2 if kind == BARRIER else begin  # a bar between the boxes
        return [Step(other, kind, name, execution, shown, end) for other in together]


class _Sheet:
    """Place the shapes of both halves, with common numbers of tasks and shades of executions."""

    def __init__(self, picture: Mapping[str, Any], planned: Sequence[Step]) -> None:
        self.items = [item["name"] for item in picture["items"]]
        self.writers = {hand_over["name"]: hand_over["items"][0] for hand_over in picture["hand_overs"]}
        tasks = [step for step in planned if step.kind == TASK]
        tasks.sort(key=lambda step: (step.begin, self.items.index(step.item)))
        self.numbers = {name: number for number, name in enumerate(dict.fromkeys(step.name for step in tasks), 1)}
        self.shades = {execution: number % SHADES for number, execution in enumerate(picture["executions"])}

    def half(
        self,
        y: float,
        scale: float,
        steps: Sequence[Step],
        rules: Sequence[float],
        launches: Sequence[tuple[str, ...]] = (),
    ) -> Half:
        """Place all shapes of one half below `y`; `scale` is SVG units per unit of the steps.

        The tasks of each of `launches` are one box.
        """
        lanes = {item: y + TITLE_HEIGHT + row * (LANE_HEIGHT + LANE_SPACE) for row, item in enumerate(self.items)}
        middles = {item: top + LANE_HEIGHT / 2 for item, top in lanes.items()}
        placed = [
            Box(_x(step.begin, scale), middles[step.item] - BOX_HEIGHT / 2, _width(step, scale), step) for step in steps
        ]
        return Half(
            y,
            tuple(lanes.items()),
            tuple(self._labelled(box) for box in _joined(placed, launches)),
            tuple(box for box in placed if box.step.kind != TASK and box.width >= 1),
            tuple(_bars(steps, scale, middles)),
            tuple(self._arrows(steps, scale, middles)),
            tuple(_x(rule, scale) for rule in rules),
            max(THINNEST_BAR, min(WIDEST_BAR, scale * CROSSING / 2)),
        )

    def _labelled(self, box: Box) -> Box:
        number, execution = self.numbers[box.step.name], f"n={box.step.execution}"
        lines = _fit(box.step.name, number, box.width)
        if box.launch:
            texts = f"one launch: {box.launch[0]} to {box.launch[-1]}", "one launch"
            lines = next(((text,) for text in texts if _fits(text, box.width)), lines)
        if lines and len(self.shades) > 1 and _fits(execution, box.width):
            lines = (*lines, execution)
        return dataclasses.replace(box, lines=lines, number=number, shade=self.shades[box.step.execution])

    def _arrows(self, steps: Sequence[Step], scale: float, middles: Mapping[str, float]) -> Iterator[Arrow]:
        for name, reached in _by_hand_over(steps, FLAG):
            writer = self.writers[name]
            raised = next(step for step in reached if step.item == writer)
            for step in reached:
                if step is not raised:
                    start, end = _x(raised.begin, scale), _x(step.end, scale)
                    yield Arrow(start, middles[writer], end, middles[step.item], name, (writer, step.item))


def _joined(placed: Sequence[Box], launches: Sequence[tuple[str, ...]]) -> Iterator[Box]:
    """Yield the boxes of tasks, one for all tasks of a launch in one execution."""
    heads = {group[0]: group for group in launches}
    followers = {name: group[0] for group in launches for name in group[1:]}
    found: dict[tuple[str, int], Box] = {}
    for box in placed:
        if box.step.kind == TASK:
            head = followers.get(box.step.name, box.step.name), box.step.execution
            first = found.get(head)
            if first and box.step.name in followers:
                step = dataclasses.replace(first.step, end=box.step.end)
                found[head] = dataclasses.replace(first, width=round(box.x + box.width - first.x, 2), step=step)
            else:
                found[head] = dataclasses.replace(box, launch=heads.get(box.step.name, ()))
    yield from found.values()


def _x(at: float, scale: float) -> float:
    return round(LABEL_WIDTH + at * scale, 2)


def _width(step: Step, scale: float) -> float:
    return round((step.end - step.begin) * scale, 2)


def _bars(steps: Sequence[Step], scale: float, middles: Mapping[str, float]) -> Iterator[Bar]:
    for name, reached in _by_hand_over(steps, BARRIER):
        stops = sorted(middles[step.item] for step in reached)
        x = _x(max(step.begin for step in reached), scale)
        yield Bar(x, tuple(stops), name, tuple(step.item for step in reached))


def _by_hand_over(steps: Sequence[Step], kind: str) -> Iterator[tuple[str, list[Step]]]:
    """Yield the name of every hand-over of a kind in every execution, with its steps."""
    of_kind = sorted((step for step in steps if step.kind == kind), key=attrgetter("execution", "name"))
    return ((name, list(found)) for (_, name), found in groupby(of_kind, key=attrgetter("execution", "name")))


def _fits(text: str, width: float) -> bool:
    return len(text) * CHARACTER_WIDTH + 2 * PADDING <= width


def _fit(name: str, number: int, width: float) -> tuple[str, ...]:
    """Return the name in one or two lines, otherwise its number, otherwise nothing."""
    choices = (name,), name_lines(name), (str(number),)
    return next((lines for lines in choices if all(_fits(line, width) for line in lines)), ())
