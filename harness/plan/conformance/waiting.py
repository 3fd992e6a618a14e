"""Cost of synchronisation: the time that every item waited at every hand-over, and at the end of every tick.

The waiting time of a hand-over lasts from an item's arrival to its release.  It includes the time that the crossing
takes: no item waits at a barrier for less than that.  At the end of a tick all items wait for the one that ends last;
in a pipeline, which has no hand-overs, this is the whole price.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harness.plan.conformance.trace import Times, Trace
from harness.plan.plan import Compute, Plan


@dataclass(frozen=True)
class Waiting:
    """The times in ns that `item` waited at `hand_over`, or at the end of a tick where that is None.

    `share` is their sum as a part of the sum of all executions' durations.
    """

    item: str
    hand_over: str | None
    count: int
    median_ns: float
    percentile_90_ns: float
    percentile_99_ns: float
    max_ns: int
    sum_ns: int
    share: float


def waiting(plan: Plan, trace: Trace) -> tuple[Waiting, ...]:
    """Return for every item its hand-overs in order of its schedule, then the end of its ticks, without gaps."""
    total_ns = int(durations_ns(trace).sum())
    return tuple(_summary(plan.items[item].name, name, times, total_ns) for item, name, times in _times(plan, trace))


def durations_ns(trace: Trace) -> Times:
    """Return the duration of each execution in ns, int64 (executions,), from its first begin to its last end."""
    durations: Times = trace.end_ns.max(axis=1) - trace.begin_ns.min(axis=1)
    return durations


def _times(plan: Plan, trace: Trace) -> Iterator[tuple[int, str | None, Times]]:
    ends = _ends_of_ticks(plan, trace)
    for item in range(len(plan.items)):
        for number, column in enumerate(trace.columns):
            if column.item == item and not isinstance(column.step, Compute):
                yield item, column.name, trace.end_ns[:, number] - trace.begin_ns[:, number]
        at_work = ends[item] >= 0
        yield item, None, (ends.max(axis=0) - ends[item])[at_work]


def _ends_of_ticks(plan: Plan, trace: Trace) -> Times:
    """Return the end of each item's last step of each tick in ns, int64 (items, ticks); -1 without a step."""
    ends = np.full((len(plan.items), trace.executions + plan.depth - 1), -1, np.int64)
    for number, column in enumerate(trace.columns):
        ticks = ends[column.item, column.stage : column.stage + trace.executions]
        np.maximum(ticks, trace.end_ns[:, number], out=ticks)
    return ends


def _summary(item: str, hand_over: str | None, times_ns: Times, total_ns: int) -> Waiting:
    median, ninety, ninety_nine = np.percentile(times_ns, (50, 90, 99))
    waited_ns = int(times_ns.sum())
    share = waited_ns / total_ns if total_ns else 0.0
    return Waiting(
        item,
        hand_over,
        len(times_ns),
        float(median),
        float(ninety),
        float(ninety_nine),
        int(times_ns.max()),
        waited_ns,
        share,
    )
