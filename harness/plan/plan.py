"""The plan of a network on a board: the columns of layers that each item computes, the synchronisation, the block size.

A *task* is the part of one layer that one item computes: all of its columns, or some.  Tasks run in the order of the
model.  Every task writes a buffer that no other writes; buffers whose contents are never needed at the same time can
share bytes of an arena (`harness.plan.arena`).  If a task reads the output of another item, the two items synchronise,
unless earlier hand-overs have ordered them.  All items start and end an execution together, so that no buffer is
overwritten before it was read.  In a pipeline the tasks have stages, and a stage works on the execution before that of
the previous stage; items then do not synchronise within an execution, but buffers have copies.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.region import Region
from harness.operators.tensor import Tensor

Sync: TypeAlias = Literal["barrier", "flag"]
"""The way items synchronise: at a `pthread_barrier_t`, or by a flag of the writer for which the reader waits."""


Buffers: TypeAlias = Literal["keep", "reuse"]
"""The use of memory: every buffer has bytes of its own, or buffers share bytes where the schedule permits it."""


@dataclass(frozen=True)
class Item:
    """The part of the model given to one processing element; it runs as one thread."""

    name: str
    target: str
    core: int | None


@dataclass(frozen=True)
class Task:
    """The part of a layer that one item computes, in the pipeline's stage `stage`.

    These are columns `start` to `stop` of each of `runs` runs of the layer's columns: of all, which are one run, or of
    every channel.
    `buffers` is how many copies its buffer has: more than 1 only where a task of a later stage reads it.
    `offset` is where its buffer begins in the arena, in bytes per vector of a block; None if it has bytes of its own.
    """

    name: str
    layer: int
    item: int
    start: int
    stop: int
    stage: int = 0
    buffers: int = 1
    offset: int | None = None
    runs: int = 1

    @property
    def region(self) -> Region:
        """The values of the layer's output that it computes."""
        return Region(self.start, self.stop, self.runs)

    @property
    def size(self) -> int:
        """The number of these values."""
        return self.region.size


@dataclass(frozen=True)
class Source:
    """The values that a task reads of a tensor: this region, from the buffers of `writers`.

    The network's input has no writer.
    """

    tensor: Tensor
    region: Region
    writers: tuple[Task, ...]

    @property
    def is_joined(self) -> bool:
        """True if the values are not exactly those of one buffer, so that the task copies them into one of its own."""
        given = [writer.region for writer in self.writers] or [Region(0, self.tensor.size)]
        return given != [self.region]


@dataclass(frozen=True)
class HandOver:
    """The synchronisation, once per execution, of the task that writes a shared buffer with those that read it.

    `items` are the writer's item and those of the readers.  It is named after the task that it is there for; it orders
    all that the writer has done before, and at a barrier, which all items leave together, all that each of them has.
    """

    name: str
    items: tuple[int, ...]

    @property
    def writer(self) -> int:
        """The item that hands over."""
        return self.items[0]


@dataclass(frozen=True)
class Compute:
    """The step of an item that computes one task."""

    task: int


@dataclass(frozen=True)
class Cross:
    """The step of an item that takes its part in one hand-over."""

    hand_over: int


Step = Compute | Cross


@dataclass(frozen=True, eq=False)
class Plan:
    """The static schedule of a network on a board.

    `tasks` are in the order of the model, those of one layer by their columns; `schedules` holds the
    steps of every item, in order.  Only tasks of stage 0 read the network's input.
    """

    board: str
    network: Network
    block: int
    sync: Sync
    items: tuple[Item, ...]
    tasks: tuple[Task, ...]
    hand_overs: tuple[HandOver, ...]
    schedules: tuple[tuple[Step, ...], ...]

    @property
    def depth(self) -> int:
        """The number of executions at the same time: the stages of the pipeline, 1 without one."""
        return 1 + max(task.stage for task in self.tasks)

    def sources(self, task: Task) -> tuple[Source, ...]:
        """Return what `task` reads of every tensor that its layer reads."""
        return self._sources[task]

    @cached_property
    def _sources(self) -> dict[Task, tuple[Source, ...]]:
        return dict(zip(self.tasks, sources(self.network.layers, self.tasks), strict=True))

    @cached_property
    def reads(self) -> tuple[tuple[int, ...], ...]:
        """The tasks whose buffers each task reads, source by source."""
        return reads(self.network.layers, self.tasks)

    @cached_property
    def earlier(self) -> tuple[int, ...]:
        """The tasks, as a set of bits, that have ended in every interleaving when a task of their stage begins.

        Hand-overs order tasks of stage 0 only: later stages also run when no execution begins.
        """
        return _earlier(self)

    @cached_property
    def kept(self) -> tuple[bool, ...]:
        """The layers, as one bool each, whose activations no later task of an execution overwrites."""
        spans = {index: found for index, task in enumerate(self.tasks) if (found := span(self.network, task))}
        lost = {
            self.tasks[one].layer
            for one, other in itertools.permutations(spans, 2)
            if overlap(spans[one], spans[other]) and not self.earlier[one] >> other & 1
        }
        return tuple(index not in lost for index in range(len(self.network.layers)))

    @property
    def arena(self) -> int:
        """The size of the arena in bytes per vector of a block; 0 without one."""
        return arena_bytes(self.network, self.tasks)

    def part(self, task: Task) -> Layer:
        """Return the layer that `task` computes: the network's, or one of some of its columns by the task's name."""
        layer = self.network.layers[task.layer]
        return layer if task.size == layer.size else layer.division.slice(task.region, task.name)

    def tasks_of(self, layer: int) -> tuple[Task, ...]:
        """Return the tasks that make up a layer, by their columns."""
        return tuple(task for task in self.tasks if task.layer == layer)


def task_bytes(network: Network, task: Task) -> int:
    """Return the bytes of one copy of the task's buffer for each vector of a block."""
    return task.size * network.layers[task.layer].dtype.itemsize


def span(network: Network, task: Task) -> range | None:
    """Return the bytes of the arena that the task's buffer has for each vector of a block; None if it has its own."""
    return None if task.offset is None else range(task.offset, task.offset + task_bytes(network, task))


def overlap(one: range, other: range) -> bool:
    """Return whether two spans have a byte in common."""
    return one.start < other.stop and other.start < one.stop


def arena_bytes(network: Network, tasks: Sequence[Task]) -> int:
    """Return the size of the arena in bytes per vector of a block; 0 without one."""
    return max((found.stop for task in tasks if (found := span(network, task))), default=0)


def buffer_bytes(network: Network, tasks: Sequence[Task]) -> int:
    """Return the bytes that the buffers of activations take on the board for each vector of a block."""
    own = sum(task.buffers * task_bytes(network, task) for task in tasks if task.offset is None)
    outputs = own + arena_bytes(network, tasks)
    read = (source for of_task in sources(network.layers, tasks) for source in of_task if source.is_joined)
    merged = sum(source.region.size * source.tensor.dtype.itemsize for source in read)
    return network.record.itemsize + outputs + merged


def sources(layers: Sequence[Layer], tasks: Sequence[Task]) -> list[tuple[Source, ...]]:
    """Return for every task what it reads of each tensor, from those tasks alone whose values it needs."""
    writer = {layer.output.name: index for index, layer in enumerate(layers)}
    parts: dict[int, list[Task]] = {}
    for task in tasks:
        parts.setdefault(task.layer, []).append(task)

    def source(tensor: Tensor, region: Region) -> Source:
        written = parts[writer[tensor.name]] if tensor.name in writer else ()
        return Source(tensor, region, tuple(task for task in written if task.region.meets(region)))

    found = []
    for task in tasks:
        layer = layers[task.layer]
        needs = layer.division.needs(task.region)
        found.append(tuple(source(tensor, region) for tensor, region in zip(layer.inputs, needs, strict=True)))
    return found


def reads(layers: Sequence[Layer], tasks: Sequence[Task]) -> tuple[tuple[int, ...], ...]:
    """Return for every task the indices of those whose buffers it reads, source by source."""
    index = {task: number for number, task in enumerate(tasks)}
    return tuple(
        tuple(index[writer] for source in of_task for writer in source.writers) for of_task in sources(layers, tasks)
    )


def _earlier(plan: Plan) -> tuple[int, ...]:
    done, at, earlier = [0] * len(plan.items), [0] * len(plan.items), [0] * len(plan.tasks)
    came: list[dict[int, int]] = [{} for _ in plan.hand_overs]  # the items at each, with the tasks known to be done

    def take(item: int) -> bool:
        if at[item] == len(plan.schedules[item]):
            return False
        step = plan.schedules[item][at[item]]
        if isinstance(step, Compute):
            earlier[step.task] = done[item]
            done[item] |= 1 << step.task
        else:
            hand_over, known = plan.hand_overs[step.hand_over], came[step.hand_over]
            known[item] = done[item]
            awaited = hand_over.items if plan.sync == "barrier" else (hand_over.writer,)
            if not known.keys() >= {*awaited}:
                return False
            done[item] |= functools.reduce(int.__or__, (known[other] for other in awaited))
        at[item] += 1
        return True

    while sum(take(item) for item in range(len(at))):
        pass
    return tuple(
        known & sum(1 << index for index, other in enumerate(plan.tasks) if _ordered_in_stage(other, task))
        for known, task in zip(earlier, plan.tasks, strict=True)
    )


def _ordered_in_stage(one: Task, other: Task) -> bool:
    """Return whether the order of the schedule holds for two tasks in every tick."""
    return one.stage == other.stage and (one.stage == 0 or one.item == other.item)
