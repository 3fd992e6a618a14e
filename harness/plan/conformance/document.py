"""The conformance section of a run document: the conditions of the traces, violations of the net, waiting times.

All of it is plain JSON.  Waiting times and the picture are those of the first condition, which should be the one in
which nothing was disturbed: delays are there to find orders, and say nothing about times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.plan.conformance.replay import Conformance, replay
from harness.plan.conformance.structure import step_name
from harness.plan.conformance.trace import Trace
from harness.plan.conformance.waiting import durations_ns, waiting
from harness.plan.plan import Compute, Plan, Step

SHOWN_VIOLATIONS = 20
SHOWN_EXECUTIONS = 5  # of a pipeline


@dataclass(frozen=True, eq=False)
class Condition:
    """One trace and the board's perturbation: `undisturbed`, `delay network 300 µs`, `random delays`."""

    name: str
    trace: Trace


def document(plan: Plan, conditions: Sequence[Condition], vectors: int) -> dict[str, Any]:
    """Return the entry `conformance` of a run document, of one condition or more.

    executions, events   counts over all conditions
    vectors              in each execution
    conforms             whether every observed execution is a path of the net
    conditions           [{name, executions, violations (a count)}]
    violations           the first of them as sentences, each after its condition's name
    waiting              [{item, hand_over (None: end of a tick), count, median_ns, ..., share}]; none with gaps
    picture              see `picture`; None with gaps
    """
    results = [replay(plan, condition.trace) for condition in conditions]
    first = conditions[0].trace
    return {
        "executions": sum(result.executions for result in results),
        "events": sum(result.events for result in results),
        "vectors": vectors,
        "conforms": all(result.conforms for result in results),
        "conditions": [_condition(c.name, result) for c, result in zip(conditions, results, strict=True)],
        "violations": _sentences(conditions, results),
        "waiting": [] if first.gaps else [dataclasses.asdict(row) for row in waiting(plan, first)],
        "picture": None if first.gaps else picture(plan, first),
    }


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


def _condition(name: str, result: Conformance) -> dict[str, Any]:
    return {"name": name, "executions": result.executions, "violations": len(result.violations)}


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
