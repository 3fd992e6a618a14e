"""A board that exists on paper: traces with random times, of any plan whose schedule comes to its end."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.plan.conformance import Event
from harness.plan.conformance.trace import columns_of
from harness.plan.plan import Compute, Cross, Plan, Step

CROSSING_NS = 20  # what leaving a hand-over takes at most


def simulate(plan: Plan, executions: int, rng: np.random.Generator, longest_ns: int = 2000) -> list[Event]:
    """The events of a run, tick by tick; a step takes up to `longest_ns`, a pause between two up to a tenth."""
    return _Board(plan, executions, rng, longest_ns).run()


def step_of(events: Sequence[Event], item: str, kind: str, name: str, execution: int) -> Event:
    """The one event of this step."""
    (event,) = (e for e in events if (e.item, e.kind, e.name, e.execution) == (item, kind, name, execution))
    return event


def moved(events: Sequence[Event], event: Event, **times_ns: int) -> list[Event]:
    """The events, one of them with another `begin_ns` or `end_ns`."""
    return [dataclasses.replace(each, **times_ns) if each is event else each for each in events]


def write(events: Sequence[Event], path: Path) -> Path:
    """As the board program does."""
    lines = (
        {"execution": e.execution, "vector": e.vector, "item": e.item, e.kind: e.name}
        | {"begin_ns": e.begin_ns, "end_ns": e.end_ns}
        for e in events
    )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


class _Board:
    def __init__(self, plan: Plan, executions: int, rng: np.random.Generator, longest_ns: int) -> None:
        self.plan, self.executions, self.rng, self.longest_ns = plan, executions, rng, longest_ns
        self.columns = {(column.item, column.step): column for column in columns_of(plan)}
        self.now = [1_000_000] * len(plan.items)
        self.events: list[Event] = []

    def run(self) -> list[Event]:
        for tick in range(self.executions + self.plan.depth - 1):
            self.now = [max(self.now)] * len(self.now)
            self._run_tick(tick)
        return self.events

    def _run_tick(self, tick: int) -> None:
        left = [
            [step for step in steps if 0 <= tick - self.columns[item, step].stage < self.executions]
            for item, steps in enumerate(self.plan.schedules)
        ]
        self.raised: dict[Step, int] = {}
        self.tick = tick
        while any(left):
            items = [item for item in range(len(left)) if left[item] and self._can(left, item)]
            self._take(left, items[self.rng.integers(len(items))])

    def _can(self, left: list[list[Step]], item: int) -> bool:
        step = left[item][0]
        if isinstance(step, Compute):
            return True
        items = self.plan.hand_overs[step.hand_over].items
        if self.plan.sync == "barrier":
            return all(left[other][:1] == [step] for other in items)
        return item == items[0] or step in self.raised

    def _take(self, left: list[list[Step]], item: int) -> None:
        step = left[item][0]
        if isinstance(step, Cross) and self.plan.sync == "barrier":
            items = self.plan.hand_overs[step.hand_over].items
            begins = {other: self._pause(other) for other in items}
            for other in items:
                self._record(left, other, begins[other], max(begins.values()) + self._draw(CROSSING_NS))
            return
        begin = self._pause(item)
        if isinstance(step, Compute):
            self._record(left, item, begin, begin + self._draw(self.longest_ns))
        else:
            self.raised.setdefault(step, begin)
            self._record(left, item, begin, max(begin, self.raised[step]) + self._draw(CROSSING_NS))

    def _record(self, left: list[list[Step]], item: int, begin: int, end: int) -> None:
        column = self.columns[item, left[item].pop(0)]
        execution = self.tick - column.stage
        vector = execution * self.plan.block
        self.events.append(Event(execution, vector, self.plan.items[item].name, column.kind, column.name, begin, end))
        self.now[item] = end

    def _pause(self, item: int) -> int:
        return self.now[item] + self._draw(self.longest_ns // 10)

    def _draw(self, limit: int) -> int:
        return int(self.rng.integers(limit + 1))
