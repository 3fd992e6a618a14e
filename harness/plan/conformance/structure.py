"""Check that a plan is well formed: one writer for each column of a layer, one place for each step.

What is found here needs no look at time.  Only of a well-formed plan can be said how its items interleave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from harness.plan.arena import PERIOD
from harness.plan.plan import Compute, Cross, Plan, Step, Task

DefectKind: TypeAlias = Literal["structure", "deadlock", "data", "overwrite"]
"""The property that a mistake breaks: form of the plan, progress, a read after its write, a copy that is still read."""


@dataclass(frozen=True)
class PlanDefect:
    """A mistake of a plan, in a sentence that names task, items and hand-over."""

    kind: DefectKind
    text: str


def malformed(plan: Plan) -> tuple[PlanDefect, ...]:
    """Return the defects for which `plan` cannot run, independent of the order of steps."""
    texts = [*_unknown(plan), *_numbers(plan)]
    if not texts:  # otherwise the messages of the other checks cannot name their subject
        texts = [*_names(plan), *_columns(plan), *_order(plan), *_steps(plan)]
    return tuple(PlanDefect("structure", text) for text in texts)


def source_tasks(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Return for every task the indices of those that write values of its sources that it needs.

    Derived from the network alone, value by value, so that a mistake of `Plan.reads` is detected.
    """
    layers = plan.network.layers
    writers = {layer.output.name: np.zeros(layer.size, np.intp) for layer in layers}
    for index, task in enumerate(plan.tasks):
        layer = layers[task.layer]
        writers[layer.output.name][task.region.indices(layer.size)] = index
    return tuple(
        tuple(
            int(writer)
            for tensor, need in zip(layer.inputs, layer.division.needs(task.region), strict=True)
            if tensor.name in writers
            for writer in np.unique(writers[tensor.name][need.indices(tensor.size)])
        )
        for task, layer in ((task, layers[task.layer]) for task in plan.tasks)
    )


def step_name(plan: Plan, step: Step) -> str:
    """Return the name of the task or the hand-over."""
    return plan.tasks[step.task].name if isinstance(step, Compute) else plan.hand_overs[step.hand_over].name


def item_names(plan: Plan, items: Iterable[int]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    *front, last = (plan.items[item].name for item in items)
    return f"{', '.join(front)} and {last}" if front else last


def _unknown(plan: Plan) -> Iterator[str]:
    """Yield indices that lead nowhere."""
    items, layers = len(plan.items), len(plan.network.layers)
    if len(plan.schedules) != items:
        yield f"{items} items have {len(plan.schedules)} schedules"
    for task in plan.tasks:
        if task.item not in range(items) or task.layer not in range(layers):
            yield f"task {task.name} names item {task.item} of {items} and layer {task.layer} of {layers}"
    for hand_over in plan.hand_overs:
        if not set(hand_over.items) <= set(range(items)):
            yield f"hand-over {hand_over.name} names items {hand_over.items}, but there are {items}"
    for index, schedule in enumerate(plan.schedules):
        for number, step in enumerate(schedule):
            kind, target, count = _target(plan, step)
            if target not in range(count):
                yield f"step {number} of item {index} is {kind} {target}, but there are {count}"


def _target(plan: Plan, step: Step) -> tuple[str, int, int]:
    if isinstance(step, Compute):
        return "task", step.task, len(plan.tasks)
    return "hand-over", step.hand_over, len(plan.hand_overs)


def _names(plan: Plan) -> Iterator[str]:
    """Yield names that occur twice: buffers, barriers and flags are found by their names."""
    for kind, named in (("tasks", plan.tasks), ("hand-overs", plan.hand_overs), ("items", plan.items)):
        counts = Counter(entry.name for entry in named)
        yield from (f"{count} {kind} bear the name {name}" for name, count in counts.items() if count > 1)


def _columns(plan: Plan) -> Iterator[str]:
    """Yield every column of a layer has exactly one writer."""
    for index, layer in enumerate(plan.network.layers):
        tasks = sorted(plan.tasks_of(index), key=lambda task: (task.start, task.stop))
        for task in tasks:
            if not 0 <= task.start < task.stop:
                yield f"task {task.name} computes columns {task.start} to {task.stop}"
            elif task.stop * task.runs <= layer.size and not layer.division.divisible(task.region):
                yield f"task {task.name} computes {_told(task)} of {layer.name}, a {layer.operator} not divided there"
        runs = {task.runs for task in tasks}
        if len(runs) > 1:
            yield f"tasks of layer {layer.name} compute columns of {' and '.join(map(str, sorted(runs)))} runs"
        else:
            yield from _cover(plan, layer.name, layer.size // max(runs, default=1), tasks)


def _told(task: Task) -> str:
    return f"columns {task.start} to {task.stop}{f' of {task.runs} runs' if task.runs > 1 else ''}"


def _cover(plan: Plan, layer: str, width: int, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the gaps and overlaps of `tasks`, which are in the order of their first columns."""
    reached, last = 0, None
    for task in tasks:
        if task.start > reached:
            yield f"no task computes columns {reached} to {task.start} of layer {layer}"
        if last and task.start < reached:
            shared = f"columns {task.start} to {min(task.stop, reached)} of layer {layer}"
            writers = item_names(plan, (last.item, task.item))
            yield f"{shared} have two writers: tasks {last.name} and {task.name}, of {writers}"
        if task.stop > reached:
            reached, last = task.stop, task
    if reached < width:
        yield f"no task computes columns {reached} to {width} of layer {layer}"
    elif reached > width:
        yield f"layer {layer} has {width} columns, but its tasks compute {reached}"


def _numbers(plan: Plan) -> Iterator[str]:
    for task in plan.tasks:
        if task.stage < 0 or task.buffers < 1:
            yield f"task {task.name} is in stage {task.stage} and has {task.buffers} buffers"
        if task.offset is not None and (task.buffers != 1 or task.offset < 0 or task.offset * plan.block % PERIOD):
            yield (
                f"task {task.name} has {task.buffers} buffers, the first at byte {task.offset * plan.block} of the "
                f"arena; one buffer at a multiple of {PERIOD} bytes is possible there"
            )
    for hand_over in plan.hand_overs:
        if len(set(hand_over.items)) < max(2, len(hand_over.items)):
            yield f"hand-over {hand_over.name} is not one between different items"


def _order(plan: Plan) -> Iterator[str]:
    """Yield tasks out of order: the board program writes those of a layer in order, in the tick of their stage."""
    for before, task in pairwise(plan.tasks):
        if (task.layer, task.start) < (before.layer, before.start):
            yield f"task {task.name} comes after {before.name}, against the order of layers and columns"
        if task.layer == before.layer and task.stage != before.stage:
            yield f"tasks {before.name} and {task.name} of one layer are in stages {before.stage} and {task.stage}"


def _steps(plan: Plan) -> Iterator[str]:
    """Yield defects: a task not computed once, by its item alone; a hand-over not crossed once by each of its items."""
    taken = [Counter(schedule) for schedule in plan.schedules]
    for number, task in enumerate(plan.tasks):
        yield from _taken(plan, taken, f"task {task.name}", Compute(number), (task.item,))
    for number, hand_over in enumerate(plan.hand_overs):
        yield from _taken(plan, taken, f"hand-over {hand_over.name}", Cross(number), hand_over.items)


def _taken(plan: Plan, taken: Sequence[Counter[Step]], what: str, step: Step, owners: Sequence[int]) -> Iterator[str]:
    done = "computed" if isinstance(step, Compute) else "crossed"
    for item, steps in enumerate(taken):
        name, times = plan.items[item].name, steps[step]
        if times and item not in owners:
            yield f"{what} is {done} by {name}, but belongs to {item_names(plan, owners)}"
        elif item in owners and not times:
            yield f"{what} is not {done} by {name}"
        elif times > 1:
            yield f"{what} is {done} {times} times by {name}"
