from __future__ import annotations

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.plan.conformance import Condition, ConformanceEntry, arrange, document
from harness.plan.conformance.waiting import durations_ns
from harness.plan.plan import Plan
from tests.support.conformance.plans import chain, make
from tests.support.conformance.simulator import moved, simulate, step_of


@pytest.fixture
def made(host: Profile) -> Plan:
    return make(chain(), host, "layer_0=right")


def condition(made: Plan, name: str, executions: int, *, early: int = 0) -> Condition:
    """A trace whose first `early` executions of layer_0 began too early."""
    events = simulate(made, executions, np.random.default_rng(executions))
    for execution in range(early):
        event = step_of(events, "right", "layer", "layer_0", execution)
        events = moved(events, event, begin_ns=event.begin_ns - 100_000)
    return Condition(name, arrange(made, events, executions))


def test_conforming_traces_are_counted(made: Plan) -> None:
    found = document(made, [condition(made, "undisturbed", 9), condition(made, "random delays", 4)], 5)
    assert (found.executions, found.events, found.conforms, found.violations) == (13, 130, True, [])
    assert found.vectors == 5
    assert [one.to_json() for one in found.conditions] == [
        {"name": "undisturbed", "executions": 9, "violations": 0},
        {"name": "random delays", "executions": 4, "violations": 0},
    ]
    assert [(row.item, row.hand_over, row.count) for row in found.waiting][:3] == [
        ("left", "quantize", 9),
        ("left", "layer_0", 9),
        ("left", None, 9),
    ]
    assert ConformanceEntry.from_json(found.to_json()) == found


def test_violations_are_counted_by_condition_and_the_first_are_shown(made: Plan) -> None:
    slow = condition(made, "delay left 300 µs", 30, early=9)
    found = document(made, [condition(made, "undisturbed", 9, early=1), slow, condition(made, "random delays", 4)], 5)
    assert not found.conforms
    first, second, third = (entry.violations for entry in found.conditions)
    assert (first, second, third) == (2, 18 + 8, 0)  # behind the first it also wrote over what was still to be read
    assert len(found.violations) == 20
    assert [text.split(":")[0] for text in found.violations] == ["undisturbed"] * 2 + ["delay left 300 µs"] * 18


def test_the_picture_is_of_the_median_execution(made: Plan) -> None:
    shown = condition(made, "undisturbed", 9)
    picture = document(made, [shown, condition(made, "random delays", 4)], 5).picture
    assert picture is not None
    durations = durations_ns(shown.trace)
    (execution,) = picture["executions"]
    assert picture["duration_ns"] == picture["span_ns"] == durations[execution] == np.median(durations)
    assert [step["name"] for step in picture["items"][1]["steps"]] == ["quantize", "layer_0", "layer_0"]
    assert picture["hand_overs"] == [
        {"name": "quantize", "items": ["left", "right"]},
        {"name": "layer_0", "items": ["right", "left"]},
    ]
    assert len(picture["events"]) == 10
    assert min(event["begin_ns"] for event in picture["events"]) == 0
    assert max(event["end_ns"] for event in picture["events"]) == picture["span_ns"]


@pytest.mark.parametrize(("executions", "shown"), [(2, 2), (50, 4)])
def test_the_picture_of_a_pipeline_is_of_a_few_executions(host: Profile, executions: int, shown: int) -> None:
    plan = make(chain(), host, "layer_0..layer_1=right", "pipeline")
    picture = document(plan, [condition(plan, "undisturbed", executions)], 5).picture
    assert picture is not None
    first = picture["executions"][0]
    assert picture["depth"] == 3
    assert picture["executions"] == list(range(first, first + shown))
    assert {event["execution"] for event in picture["events"]} == set(picture["executions"])


def test_a_trace_with_gaps_has_no_times(made: Plan) -> None:
    events = simulate(made, 3, np.random.default_rng(1))
    found = document(made, [Condition("undisturbed", arrange(made, events[:-1], 3))], 5)
    assert (found.conforms, found.waiting, found.picture) == (False, [], None)
    assert found.violations == ["undisturbed: left never took layer advisory of execution 2"]
