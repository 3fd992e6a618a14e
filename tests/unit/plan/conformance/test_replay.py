from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.plan import planner, schedule
from harness.plan.conformance import Event, arrange, replay
from harness.plan.conformance.replay import Place, places_of
from harness.plan.conformance.structure import source_tasks
from harness.plan.plan import Item, Plan, Sync
from harness.plan.split import Share
from tests.support.conformance import plans
from tests.support.conformance.plans import branches, chain, make
from tests.support.conformance.simulator import moved, simulate, step_of
from tests.support.examples import examples


def found(made: Plan, events: Sequence[Event], executions: int) -> list[str]:
    return [violation.text for violation in replay(made, arrange(made, events, executions)).violations]


def task_of(events: Sequence[Event], item: str, name: str, execution: int) -> Event:
    return step_of(events, item, "layer", name, execution)


@pytest.mark.slow
@examples(150)
@given(plans.plans(layers=8, items=4), st.integers(0, 2**32), st.integers(1, 6))
def test_what_keeps_to_the_schedule_conforms(made: Plan, seed: int, executions: int) -> None:
    events = simulate(made, executions, np.random.default_rng(seed), longest_ns=30)
    assert found(made, events, executions) == []


@pytest.mark.slow
@examples(150)
@given(plans.plans(layers=8, items=3))
def test_the_net_of_the_description_has_the_places_that_the_network_needs(made: Plan) -> None:
    read = sorted({(source, task) for task, sources in enumerate(source_tasks(made)) for source in sources})
    variables = [Place("variable", source, task, 0) for source, task in read]
    free = [Place("free", task, source, made.tasks[source].buffers) for source, task in read]
    first = [index for index, task in enumerate(made.tasks) if "x" in made.network.layers[task.layer].sources]
    inputs = [Place("input", task, other, 1) for task in first for other in first if task != other]
    assert places_of(made) == (*variables, *free, *inputs)


def test_a_conforming_trace_is_counted(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=right")
    result = replay(plan, arrange(plan, simulate(plan, 9, np.random.default_rng(1)), 9))
    assert (result.executions, result.events, result.conforms) == (9, 9 * 10, True)


@pytest.fixture
def offloaded(host: Profile) -> Plan:
    return make(chain(), host, "layer_0=right")


@pytest.fixture
def events(offloaded: Plan) -> list[Event]:
    return simulate(offloaded, 20, np.random.default_rng(2))


def test_a_read_before_the_write_has_ended_is_found(offloaded: Plan, events: list[Event]) -> None:
    written, read = task_of(events, "left", "quantize", 12), task_of(events, "right", "layer_0", 12)
    text = "right began layer_0 of execution 12 1,200 ns before left had ended quantize, which it reads"
    assert text in found(offloaded, moved(events, read, begin_ns=written.end_ns - 1200), 20)
    early = found(offloaded, moved(events, read, begin_ns=written.end_ns), 20)
    assert not [text for text in early if "which it reads" in text]


def test_equal_times_are_in_order(offloaded: Plan) -> None:
    """The clock of a board may stand still for a while."""
    events = [dataclasses.replace(e, begin_ns=7, end_ns=7) for e in simulate(offloaded, 3, np.random.default_rng(2))]
    assert found(offloaded, events, 3) == []


def test_an_overwritten_buffer_is_found(offloaded: Plan, events: list[Event]) -> None:
    read, written = task_of(events, "right", "layer_0", 12), task_of(events, "left", "quantize", 13)
    text = "left began to overwrite quantize (execution 13) 300 ns before right had read it (layer_0 of execution 12)"
    assert text in found(offloaded, moved(events, written, begin_ns=read.end_ns - 300), 20)
    early = found(offloaded, moved(events, written, begin_ns=read.end_ns), 20)
    assert not [text for text in early if "overwrite" in text]


def test_a_read_of_the_next_input_before_all_have_read_this_one_is_found() -> None:
    """The main thread fills the one buffer of the input when all items have ended."""
    layers, items = [plans.dense(number, "x") for number in range(2)], [Item(name, "c", None) for name in "ab"]
    tasks = planner.tasks_from(layers, [[Share(item, 0, plans.WIDTH)] for item in range(2)], pipeline=False)
    plan = schedule.compose("board", plans.network_of(layers), 1, "barrier", items, tasks)
    events = simulate(plan, 9, np.random.default_rng(2))
    late, after = task_of(events, "a", "layer_0", 3), task_of(events, "b", "layer_1", 4)
    text = "b began layer_1 of execution 4 60 ns before a had read the input of execution 3 (layer_0)"
    assert found(plan, moved(events, late, end_ns=after.begin_ns + 60), 9)[0] == text
    assert found(plan, moved(events, late, end_ns=after.begin_ns), 9) == []


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_a_pipeline_may_write_ahead_as_far_as_it_has_buffers(host: Profile, buffers: int) -> None:
    plan = make(chain(), host, "layer_0..layer_1=right", "pipeline")
    events = simulate(plan, 8, np.random.default_rng(2))
    fewer = plans.with_task(plan, "quantize", buffers=buffers)
    texts = [text for text in found(fewer, events, 8) if "overwrite" in text]
    assert bool(texts) == (buffers == 1)
    assert all("overwrite quantize" in text for text in texts)


def test_two_steps_of_an_item_at_a_time_are_found(offloaded: Plan, events: list[Event]) -> None:
    before, after = task_of(events, "left", "layer_1", 12), task_of(events, "left", "layer_2", 12)
    assert found(offloaded, moved(events, after, begin_ns=before.end_ns - 40), 20) == [
        "left began layer_2 of execution 12 40 ns before it had ended layer_1 of execution 12",
        "left began layer_2 of execution 12 40 ns before left had ended layer_1, which it reads",
    ]


def test_executions_of_an_item_in_another_order_are_found(host: Profile) -> None:
    """In a pipeline the steps of a tick are of different executions."""
    plan = make(chain(), host, "layer_0..layer_1=right", "pipeline")
    events = simulate(plan, 8, np.random.default_rng(2))
    before, after = task_of(events, "left", "quantize", 5), task_of(events, "left", "layer_2", 3)
    texts = found(plan, moved(events, after, begin_ns=before.end_ns - 10), 8)
    assert "left began layer_2 of execution 3 10 ns before it had ended quantize of execution 5" in texts


@pytest.mark.parametrize(("sync", "deed"), [("barrier", "had come"), ("flag", "raised it")])
def test_passing_a_hand_over_too_early_is_found(host: Profile, sync: Sync, deed: str) -> None:
    plan = make(chain(), host, "layer_0=right", sync=sync)
    events = simulate(plan, 20, np.random.default_rng(2))
    left, right = (step_of(events, item, sync, "quantize", 12) for item in ("left", "right"))
    texts = found(plan, moved(events, right, begin_ns=left.begin_ns - 8, end_ns=left.begin_ns - 7), 20)
    assert f"right left {sync} quantize of execution 12 7 ns before left {deed}" in texts


@pytest.mark.parametrize("sync", ["barrier", "flag"])
def test_the_writer_of_a_flag_waits_for_nobody(host: Profile, sync: Sync) -> None:
    plan = make(chain(), host, "layer_0=right", sync=sync)
    events = simulate(plan, 1, np.random.default_rng(2))
    left, right = (step_of(events, item, sync, "quantize", 0) for item in ("left", "right"))
    texts = found(plan, moved(events, right, begin_ns=left.end_ns + 5, end_ns=left.end_ns + 5), 1)
    waits = "left left barrier quantize of execution 0 5 ns before right had come"
    assert [text for text in texts if " left " in text] == [waits] * (sync == "barrier")


def test_a_missing_step_and_one_that_is_there_twice_are_named(offloaded: Plan, events: list[Event]) -> None:
    gone, crossing = task_of(events, "right", "layer_0", 4), step_of(events, "left", "barrier", "quantize", 5)
    assert found(offloaded, [*events, gone], 20) == ["right took layer layer_0 of execution 4 2 times"]
    assert found(offloaded, [event for event in events if event not in {gone, crossing}], 20) == [
        "right never took layer layer_0 of execution 4",
        "left never took barrier quantize of execution 5",
    ]


def test_violations_stand_in_the_order_of_executions(offloaded: Plan, events: list[Event]) -> None:
    for execution in (17, 3):
        event = task_of(events, "right", "layer_0", execution)
        events = moved(events, event, begin_ns=event.begin_ns - 10_000)
    violations = replay(offloaded, arrange(offloaded, events, 20)).violations
    assert {v.execution for v in violations} == {3, 17}
    assert list(violations) == sorted(violations, key=lambda violation: violation.execution)


@pytest.mark.parametrize("split", [("branches",), ("branches", "pipeline")])
def test_any_read_moved_before_its_write_is_found(host: Profile, split: tuple[str, ...]) -> None:
    plan = make(branches(), host, *split, items=3)
    events = simulate(plan, 4, np.random.default_rng(5))
    for task, sources in enumerate(plan.reads):
        for source in sources:
            reader, writer = plan.tasks[task], plan.tasks[source]
            read, written = (task_of(events, plan.items[t.item].name, t.name, 2) for t in (reader, writer))
            assert (
                f"{read.item} began {reader.name} of execution 2 1 ns before {written.item} had ended {writer.name}, "
                "which it reads"
            ) in found(plan, moved(events, read, begin_ns=written.end_ns - 1), 4)


@pytest.mark.slow
def test_10000_executions_are_replayed(host: Profile) -> None:
    plan = make(chain((3, *[8] * 8, 4)), host, "layer_1..layer_4=right")
    once = simulate(plan, 100, np.random.default_rng(1))
    span = once[-1].end_ns
    events = [
        dataclasses.replace(e, execution=e.execution + 100 * n, begin_ns=e.begin_ns + late, end_ns=e.end_ns + late)
        for n, late in enumerate(range(0, 100 * span, span))
        for e in once
    ]
    result = replay(plan, arrange(plan, events, 10_000))
    assert (result.conforms, result.executions) == (True, 10_000)
