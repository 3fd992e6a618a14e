"""The steps of every item and their hand-overs, which follow from the tasks of a plan."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from harness.model.network import Network
from harness.operators.base import Layer
from harness.plan.plan import Compute, Cross, HandOver, Item, Plan, Step, Sync, Task, reads


def compose(board: str, network: Network, block: int, sync: Sync, items: Sequence[Item], tasks: Sequence[Task]) -> Plan:
    """Return the plan of `tasks`, whose schedules and hand-overs follow from them; items without work are left out."""
    used = sorted({task.item for task in tasks})
    tasks = tuple(dataclasses.replace(task, item=used.index(task.item)) for task in tasks)
    hand_overs, schedules = schedule(network.layers, tasks, len(used), sync)
    return Plan(board, network, block, sync, tuple(items[i] for i in used), tasks, hand_overs, schedules)


def schedule(
    layers: Sequence[Layer], tasks: Sequence[Task], item_count: int, sync: Sync
) -> tuple[tuple[HandOver, ...], tuple[tuple[Step, ...], ...]]:
    """Return the hand-overs, and the steps of every item.

    Only tasks of one stage synchronise: the output of earlier stages is complete since the end of the last execution.
    Every read comes after its write, and every hand-over is needed: without it a task would read too early.  Items
    never deadlock, as all take their steps in the same order.
    """
    sources = [
        [source for source in read if tasks[source].stage == task.stage]
        for task, read in zip(tasks, reads(layers, tasks), strict=True)
    ]
    schedules = _meetings if sync == "barrier" else _flags
    hand_overs, steps = schedules(tasks, sources, item_count)
    return tuple(hand_overs), tuple(tuple(of_item) for of_item in steps)


Schedules: TypeAlias = tuple[list[HandOver], list[list[Step]]]

Meetings: TypeAlias = Mapping[int, AbstractSet[int]]
"""Meetings by the task that requires them: the items that meet its item, directly after its layer."""


def _meetings(tasks: Sequence[Task], read: Sequence[Sequence[int]], item_count: int) -> Schedules:
    """Synchronise by barriers: the writer of a layer meets those that need it directly after that layer.

    A meeting also orders everything that its items have done before, so one can serve several reads: while a read would
    come too early, a meeting is added for it; then every redundant meeting is removed.
    """
    walk = _Walk(tasks, read, item_count)
    meetings: dict[int, frozenset[int]] = {}
    while early := walk.early_read(meetings):
        meetings[early[0]] = meetings.get(early[0], frozenset()) | {early[1]}
    for source, reader in [(task, item) for task, met in sorted(meetings.items()) for item in sorted(met)]:
        fewer = meetings | {source: meetings[source] - {reader}}
        if walk.early_read(fewer) is None:
            meetings = fewer
    hand_overs: list[HandOver] = []
    steps: list[list[Step]] = [[] for _ in range(item_count)]
    for layer in walk.layers:
        for task in layer:
            steps[tasks[task].item].append(Compute(task))
        for task in layer:
            if meetings.get(task):
                items = (tasks[task].item, *sorted(meetings[task]))
                for item in items:
                    steps[item].append(Cross(len(hand_overs)))
                hand_overs.append(HandOver(tasks[task].name, items))
    return hand_overs, steps


class _Walk:
    """A pass over the layers that notes which tasks each item knows to be done; an int holds a set of tasks as bits."""

    def __init__(self, tasks: Sequence[Task], read: Sequence[Sequence[int]], item_count: int) -> None:
        indices = range(len(tasks))
        self.layers = [list(group) for _, group in itertools.groupby(indices, key=lambda index: tasks[index].layer)]
        self._items = [task.item for task in tasks]
        self._read = [functools.reduce(int.__or__, (1 << source for source in sources), 0) for sources in read]
        self._item_count = item_count

    def early_read(self, meetings: Meetings) -> tuple[int, int] | None:
        """Return the first read that may come before its write: the task that is read, and the reader's item.

        Among several sources it is the last, whose item has done most by then.
        """
        done = [0] * self._item_count
        for layer in self.layers:
            for task in layer:
                if early := self._read[task] & ~done[self._items[task]]:
                    return early.bit_length() - 1, self._items[task]
            for task in layer:
                done[self._items[task]] |= 1 << task
            for task in layer:
                if meetings.get(task):
                    together = (self._items[task], *meetings[task])
                    union = functools.reduce(int.__or__, (done[item] for item in together))
                    for item in together:
                        done[item] = union
        return None


def _flags(tasks: Sequence[Task], read: Sequence[Sequence[int]], item_count: int) -> Schedules:
    """Synchronise by flags: set after the producer, awaited before its first consumer.

    A flag also orders all earlier steps and waits of the writer's item.
    """
    steps: list[list[Step]] = [[] for _ in range(item_count)]
    finished = [0] * item_count
    brought: list[int] = []
    waits: dict[int, list[int]] = {}
    for task, sources in enumerate(read):
        item = tasks[task].item
        for source in sorted(sources, reverse=True):
            if not finished[item] >> source & 1:
                waits.setdefault(source, []).append(item)
                steps[item].append(Cross(source))
                finished[item] |= brought[source]
        steps[item] += [Compute(task), Cross(task)]
        finished[item] |= 1 << task
        brought.append(finished[item])
    number = {source: index for index, source in enumerate(sorted(waits))}
    hand_overs = [HandOver(tasks[s].name, (tasks[s].item, *dict.fromkeys(waits[s]))) for s in number]
    return hand_overs, [_renumbered(of_item, number) for of_item in steps]


def _renumbered(steps: Sequence[Step], number: Mapping[int, int]) -> list[Step]:
    """Replace the tasks that raise flags by the numbers of the flags; leave out flags without readers."""
    return [
        step if isinstance(step, Compute) else Cross(number[step.hand_over])
        for step in steps
        if isinstance(step, Compute) or step.hand_over in number
    ]
