"""The conformance section of a run document: the conditions of the traces, violations of the net, waiting times.

Waiting times and the picture are those of the first condition, which should be the one in
which nothing was disturbed: delays are there to find orders, and say nothing about times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.document import Entries
from harness.plan.conformance.replay import Conformance, replay
from harness.plan.conformance.structure import step_name
from harness.plan.conformance.trace import Trace
from harness.plan.conformance.waiting import Waiting, durations_ns, waiting
from harness.plan.plan import Compute, Plan, Step

SHOWN_VIOLATIONS = 20
SHOWN_EXECUTIONS = 5  # of a pipeline


@dataclass(frozen=True, eq=False)
class Condition:
    """One trace and the board's perturbation: `undisturbed`, `delay network 300 µs`, `random delays`."""

    name: str
    trace: Trace


class ConditionEntry(Entries):
    """Executions that were traced under one condition; `violations` is a count."""

    name: str
    executions: int
    violations: int


class ConformanceEntry(Entries):
    """Result of the traces; counts are over all conditions.

    `violations` are the first of them as sentences, each after its condition's name.  `waiting` is empty, and `picture`
    (see the function) None, for traces with gaps.
    """

    executions: int
    events: int
    vectors: int | None = None  # in each execution; an earlier version did not record it
    conforms: bool
    conditions: Sequence[ConditionEntry] = ()
    violations: Sequence[str] = ()
    waiting: Sequence[Waiting] = ()
    picture: Mapping[str, Any] | None = None


def document(plan: Plan, conditions: Sequence[Condition], vectors: int) -> ConformanceEntry:
    """Return the entry `conformance` of a run document, of one condition or more, with `vectors` in each execution."""
    results = [replay(plan, condition.trace) for condition in conditions]
    first = conditions[0].trace
    return ConformanceEntry(
        executions=sum(result.executions for result in results),
        events=sum(result.events for result in results),
        vectors=vectors,
        conforms=all(result.conforms for result in results),
        conditions=[_condition(c.name, result) for c, result in zip(conditions, results, strict=True)],
        violations=_sentences(conditions, results),
        waiting=[] if first.gaps else list(waiting(plan, first)),
        picture=None if first.gaps else picture(plan, first),
    )


def picture(plan: Plan, trace: Trace) -> dict[str, Any]:
    """Return the data of the swimlanes: the schedule, and one execution of a trace without gaps, of a pipeline a few.

    depth, sync          of the plan
    items                [{name, steps: [{kind, name, stage}]}], the schedule
    hand_overs           [{name, items}], the writer's item first
    executions           the numbers of those shown
    duration_ns          of the first of them, whose duration is the median
    span_ns              from the start of the first step shown to the end of the last, 1 at least
    events               [{item, kind, name, execution, begin_ns, end_ns}], counted from that begin
    """
    durations = durations_ns(trace)
    count = min(trace.executions, SHOWN_EXECUTIONS, 1 if plan.depth == 1 else plan.depth + 1)
    candidates = durations[: trace.executions - count + 1]
    row = int(np.argsort(candidates, kind="stable")[(len(candidates) - 1) // 2])
    shown = slice(row, row + count)
    begin_ns = int(trace.begin_ns[shown].min())
    return {
        "depth": plan.depth,
        "sync": plan.sync,
        "items": [
            {"name": item.name, "steps": [_step(plan, step) for step in schedule]}
            for item, schedule in zip(plan.items, plan.schedules, strict=True)
        ],
        "hand_overs": [{"name": h.name, "items": [plan.items[item].name for item in h.items]} for h in plan.hand_overs],
        "executions": list(range(row, row + count)),
        "duration_ns": int(durations[row]),
        "span_ns": max(1, int(trace.end_ns[shown].max()) - begin_ns),
        "events": [event for number in range(row, row + count) for event in _events(plan, trace, number, begin_ns)],
    }


def _condition(name: str, result: Conformance) -> ConditionEntry:
    return ConditionEntry(name=name, executions=result.executions, violations=len(result.violations))


def _sentences(conditions: Sequence[Condition], results: Sequence[Conformance]) -> list[str]:
    texts = [f"{c.name}: {v.text}" for c, result in zip(conditions, results, strict=True) for v in result.violations]
    return texts[:SHOWN_VIOLATIONS]


def _step(plan: Plan, step: Step) -> dict[str, Any]:
    kind, stage = ("layer", plan.tasks[step.task].stage) if isinstance(step, Compute) else (plan.sync, 0)
    return {"kind": kind, "name": step_name(plan, step), "stage": stage}


def _events(plan: Plan, trace: Trace, row: int, origin_ns: int) -> list[dict[str, Any]]:
    return [
        {
            "item": plan.items[column.item].name,
            "kind": column.kind,
            "name": column.name,
            "execution": row,
            "begin_ns": int(trace.begin_ns[row, number]) - origin_ns,
            "end_ns": int(trace.end_ns[row, number]) - origin_ns,
        }
        for number, column in enumerate(trace.columns)
    ]
