"""The static check finds nothing in what harness.plan.plan makes, and names every mistake that is put into a plan."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.plan import planner, schedule
from harness.plan.conformance import check
from harness.plan.plan import Compute, Cross, HandOver, Item, Plan, Sync
from harness.plan.split import Share
from tests.support.conformance import plans
from tests.support.conformance.exhaustive import goes_wrong
from tests.support.conformance.plans import branches, chain, make, with_task, without
from tests.support.examples import examples


def texts(made: Plan) -> list[str]:
    return [f"{finding.kind}: {finding.text}" for finding in check(made)]


@pytest.mark.parametrize("sync", ["barrier", "flag"])
@pytest.mark.parametrize("split", [("layer_0=right",), ("parallel",), ("layer_0..layer_1=right", "pipeline")])
def test_a_plan_of_a_chain_is_in_order(host: Profile, split: tuple[str, ...], sync: Sync) -> None:
    plan = make(chain(), host, *split, sync=sync)
    assert len(plan.items) == 2
    assert check(plan) == ()


@pytest.mark.parametrize("sync", ["barrier", "flag"])
@pytest.mark.parametrize("split", [("branches",), ("branches", "pipeline"), ("parallel",)])
def test_a_plan_of_branches_is_in_order(host: Profile, split: tuple[str, ...], sync: Sync) -> None:
    plan = make(branches(), host, *split, items=3, sync=sync)
    assert len(plan.items) > 1
    assert check(plan) == ()


@pytest.mark.slow
@examples(300)
@given(plans.plans(layers=10, items=4))
def test_every_plan_that_is_made_is_in_order(made: Plan) -> None:
    assert check(made) == ()


@pytest.mark.slow
@examples(300)
@given(plans.plans(layers=4, items=3), st.data())
def test_the_check_agrees_with_all_interleavings(made: Plan, data: st.DataObject) -> None:
    """Of plans as they are made, and of such whose steps, stages or buffers were changed."""
    schedules = [list(steps) for steps in made.schedules]
    for steps in schedules:
        if len(steps) > 1 and data.draw(st.booleans()):
            first = data.draw(st.integers(0, len(steps) - 2))
            steps[first : first + 2] = reversed(steps[first : first + 2])
    stages = {index: data.draw(st.integers(0, 1)) for index in range(len(made.network.layers))}
    shifted = data.draw(st.booleans())
    tasks = tuple(
        dataclasses.replace(t, stage=t.stage + stages[t.layer] * shifted, buffers=data.draw(st.integers(1, t.buffers)))
        for t in made.tasks
    )
    changed = dataclasses.replace(made, schedules=tuple(map(tuple, schedules)), tasks=tasks)
    if made.hand_overs and data.draw(st.booleans()):
        changed = without(changed, data.draw(st.sampled_from([each.name for each in made.hand_overs])))
    findings = [finding for finding in check(changed) if "network's input" not in finding.text]
    executions = 1 + max(task.buffers for task in changed.tasks)
    assert bool(findings) == any(goes_wrong(changed, count) for count in range(1, executions + 1)), findings


def test_a_missing_hand_over_is_found(host: Profile) -> None:
    made = without(make(chain(), host, "layer_0=right"), "quantize")
    assert texts(made) == [
        "data: layer_0 on right may read quantize before left has written it: none of their 1 hand-overs orders the two"
    ]
    assert texts(without(made, "layer_0"))[1] == (
        "data: layer_1 on left may read layer_0 before right has written it: "
        "there is no hand-over between right and left"
    )


def test_a_missing_flag_is_found(host: Profile) -> None:
    made = without(make(chain(), host, "parallel", sync="flag"), "layer_0_1")
    assert texts(made) == [
        (
            "data: layer_1_0 on left may read layer_0_1 before right has written it: "
            "none of their 5 hand-overs orders the two"
        )
    ]


def test_hand_overs_in_another_order_in_one_item_are_a_deadlock(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=right")
    left, right = plan.schedules
    assert [step for step in left if isinstance(step, Cross)] == [Cross(0), Cross(1)]
    swapped = tuple(Cross(1 - step.hand_over) if isinstance(step, Cross) else step for step in left)
    assert texts(dataclasses.replace(plan, schedules=(swapped, right))) == [
        (
            "deadlock: no run comes to its end: left waits at hand-over layer_0 for right; "
            "right waits at hand-over quantize for left"
        )
    ]


def test_a_flag_that_is_awaited_before_it_is_raised_in_a_circle_is_a_deadlock(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=right", sync="flag")
    left, right = plan.schedules
    late = (*(step for step in left if step != Cross(0)), Cross(0))
    assert texts(dataclasses.replace(plan, schedules=(late, right))) == [
        (
            "deadlock: no run comes to its end: left waits at hand-over layer_0 for right; "
            "right waits at hand-over quantize for left"
        )
    ]


def test_a_flag_that_is_raised_too_early_is_found(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=right", sync="flag")
    left, right = plan.schedules
    early = (Cross(0), *(step for step in left if step != Cross(0)))
    assert texts(dataclasses.replace(plan, schedules=(early, right))) == [
        "data: layer_0 on right may read quantize before left has written it: hand-over quantize does not order the two"
    ]


def test_a_buffer_with_two_writers_is_found(host: Profile) -> None:
    made = with_task(make(chain(), host, "parallel"), "layer_0_1", start=3)
    assert texts(made) == [
        "structure: columns 3 to 4 of layer layer_0 have two writers: tasks layer_0_0 and layer_0_1, of left and right"
    ]


def test_columns_without_a_writer_are_found(host: Profile) -> None:
    plan = make(chain(), host, "parallel")
    assert texts(with_task(plan, "layer_0_1", start=5)) == [
        "structure: no task computes columns 4 to 5 of layer layer_0"
    ]
    assert texts(with_task(plan, "layer_0_1", stop=7)) == [
        "structure: no task computes columns 7 to 8 of layer layer_0"
    ]
    assert texts(with_task(plan, "layer_0_1", stop=9)) == [
        "structure: layer layer_0 has 8 columns, but its tasks compute 9"
    ]


def test_a_pipeline_without_its_second_buffer_is_found(host: Profile) -> None:
    plan = make(chain(), host, "layer_0..layer_1=right", "pipeline")
    assert [(t.name, t.buffers) for t in plan.tasks if t.buffers > 1] == [("quantize", 2), ("layer_1", 2)]
    assert texts(with_task(plan, "quantize", buffers=1)) == [
        (
            "overwrite: left may overwrite quantize with execution n + 1 before right has read execution n "
            "(layer_0, stage 1 against 0): it has one buffer"
        )
    ]


def test_a_wrong_stage_is_found(host: Profile) -> None:
    plan = make(chain(), host, "layer_0..layer_1=right", "pipeline")
    assert texts(with_task(plan, "layer_0", stage=0)) == [
        (
            "data: layer_0 on right may read quantize before left has written it: "
            "there is no hand-over between left and right"
        ),
        (
            "overwrite: right may overwrite layer_0 with execution n + 1 before right has read execution n "
            "(layer_1, stage 1 against 0): it has one buffer"
        ),
    ]
    assert texts(with_task(plan, "quantize", stage=2))[0] == (
        "data: layer_0 (right, stage 1) reads quantize before it is written (left, stage 2)"
    )
    assert texts(with_task(plan, "quantize", stage=1))[1] == (
        "overwrite: the main thread overwrites the network's input x with execution n + 1 before left has read "
        "execution n (quantize, stage 1): it has one buffer"
    )


def test_one_buffer_is_enough_where_the_reader_comes_first_in_every_tick(host: Profile) -> None:
    plan = make(chain((3, 4)), host)
    tasks = tuple(dataclasses.replace(task, stage=int(task.layer > 0)) for task in plan.tasks)
    (schedule,) = plan.schedules
    assert texts(dataclasses.replace(plan, tasks=tasks, schedules=((*schedule[1:], schedule[0]),))) == []
    assert texts(dataclasses.replace(plan, tasks=tasks)) == [
        (
            "overwrite: left may overwrite quantize with execution n + 1 before left has read execution n "
            "(layer_0, stage 1 against 0): it has one buffer"
        )
    ]


def test_a_hand_over_does_not_order_later_stages(host: Profile) -> None:
    """It is a step of stage 0, which the last executions of a pipeline do without."""
    plan = make(chain(), host, "layer_0=right")
    tasks = tuple(dataclasses.replace(t, stage=int(t.layer > 0), buffers=1 + (t.layer == 0)) for t in plan.tasks)
    assert texts(dataclasses.replace(plan, tasks=tasks)) == [
        "data: layer_1 on left may read layer_0 before right has written it: hand-overs take no part in stage 1"
    ]


def test_a_task_in_the_schedule_of_another_item_is_found(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=right")
    assert texts(with_task(plan, "layer_1", item=1)) == [
        "structure: task layer_1 is computed by left, but belongs to right",
        "structure: task layer_1 is not computed by right",
    ]


def test_a_task_that_is_computed_twice_is_found(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=right")
    left, right = plan.schedules
    assert texts(dataclasses.replace(plan, schedules=(left, (*right, Compute(1))))) == [
        "structure: task layer_0 is computed 2 times by right"
    ]


def test_an_order_against_the_data_within_one_item_is_found(host: Profile) -> None:
    plan = make(chain(), host)
    (only,) = plan.schedules
    assert texts(dataclasses.replace(plan, schedules=(tuple(reversed(only)),)))[0] == (
        "data: left computes layer_0 before quantize, which it reads"
    )


def test_hand_overs_that_items_miss_or_do_not_belong_to_are_found(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=right", "layer_1=item_2", items=3)
    left, right, third = plan.schedules
    changed = dataclasses.replace(plan, schedules=(left, right[1:], (Cross(0), *third)))
    assert texts(changed) == [
        "structure: hand-over quantize is not crossed by right",
        "structure: hand-over quantize is crossed by item_2, but belongs to left and right",
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schedules": ((),)}, "2 items have 1 schedules"),
        ({"hand_overs": (HandOver("quantize", (0, 7)),)}, "hand-over quantize names items (0, 7), but there are 2"),
        ({"hand_overs": (HandOver("quantize", (1, 1)),)}, "hand-over quantize is not one between different items"),
        ({"hand_overs": (HandOver("quantize", (0, 1, 1)),)}, "hand-over quantize is not one between different items"),
        ({"schedules": ((Compute(9),), ())}, "step 0 of item 0 is task 9, but there are 6"),
        ({"items": (Item("same", "c", None),) * 2}, "2 items bear the name same"),
    ],
)
def test_what_leads_nowhere_is_found(host: Profile, change: dict[str, object], text: str) -> None:
    plan = make(chain(), host, "layer_0=right")
    assert f"structure: {text}" in texts(dataclasses.replace(plan, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stage": -1}, "task layer_0 is in stage -1 and has 1 buffers"),
        ({"buffers": 0}, "task layer_0 is in stage 0 and has 0 buffers"),
        ({"start": 8}, "task layer_0 computes columns 8 to 8"),
        ({"start": -1}, "task layer_0 computes columns -1 to 8"),
        ({"layer": 9}, "task layer_0 names item 1 of 2 and layer 9 of 6"),
    ],
)
def test_a_task_that_is_none_is_found(host: Profile, changes: dict[str, int], text: str) -> None:
    assert f"structure: {text}" in texts(with_task(make(chain(), host, "layer_0=right"), "layer_0", **changes))


def test_a_split_of_what_cannot_be_split_is_found(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=left+right")
    half = plan.tasks[1].stop // 2
    assert texts(with_task(plan, "layer_0_0", stop=half, runs=2)) == [
        f"structure: task layer_0_0 computes columns 0 to {half} of 2 runs of layer_0, a QGemm not divided there",
        "structure: tasks of layer layer_0 compute columns of 1 and 2 runs",
    ]


def test_tasks_in_another_order_or_of_one_layer_in_two_stages_are_found(host: Profile) -> None:
    plan = make(chain(), host, "layer_0=left+right")
    swapped = dataclasses.replace(plan, tasks=(plan.tasks[0], plan.tasks[2], plan.tasks[1], *plan.tasks[3:]))
    assert "structure: task layer_0_0 comes after layer_0_1, against the order of layers and columns" in texts(swapped)
    assert texts(with_task(plan, "layer_0_1", stage=1)) == [
        "structure: tasks layer_0_0 and layer_0_1 of one layer are in stages 0 and 1"
    ]


@pytest.mark.slow
def test_a_plan_of_100_layers_on_8_items_is_checked() -> None:
    layers = [plans.dense(0, "x"), *(plans.dense(number, f"t{number - 1}") for number in range(1, 100))]
    edges = [plans.WIDTH * part for part in range(9)]
    layers = [
        dataclasses.replace(
            layer, weights=np.tile(layer.weights, 8), output=dataclasses.replace(layer.output, shape=(edges[-1],))
        )
        for layer in layers
    ]
    shares = [[Share(item, *edges[item : item + 2]) for item in range(8)]] * 100
    tasks = planner.tasks_from(layers, shares, pipeline=False)
    items = [Item(f"item_{number}", "c", None) for number in range(8)]
    for sync in ("barrier", "flag"):
        plan = schedule.compose("board", plans.network_of(layers), 1, sync, items, tasks)
        assert check(plan) == ()
