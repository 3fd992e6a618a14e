"""Buffers that share bytes: where they are placed, that no interleaving needs two at once, what a block needs."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.core.errors import RequestError
from harness.plan import arena, plan, planner
from harness.plan.conformance import check
from harness.plan.plan import Plan, buffer_bytes, overlap, span
from tests.support.conformance import plans
from tests.support.conformance.exhaustive import goes_wrong
from tests.support.examples import examples


def reused(made: Plan, block: int = 256) -> Plan:
    """The plan with all buffers in the arena that may be there."""
    return arena.with_buffers(made, block, "reuse")


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))),
    st.sampled_from([1, 4, 16]),
)
def test_buffers_in_conflict_share_no_byte(sizes: list[int], pairs: set[tuple[int, int]], alignment: int) -> None:
    conflicts = dict.fromkeys(range(len(sizes)), 0)
    for one, other in (pair for pair in pairs if pair[0] != pair[1] and max(pair) < len(sizes)):
        conflicts[one] |= 1 << other
        conflicts[other] |= 1 << one
    offsets = arena.place(dict(enumerate(sizes)), conflicts, alignment)
    assert all(offset % alignment == 0 for offset in offsets.values())
    spans = [range(offsets[index], offsets[index] + size) for index, size in enumerate(sizes)]
    for one, other in itertools.combinations(range(len(sizes)), 2):
        assert not (conflicts[one] >> other & 1 and overlap(spans[one], spans[other]))
    if not any(conflicts.values()):
        assert max(each.stop for each in spans) == max(sizes)


def test_the_largest_buffer_is_placed_first_and_gaps_are_filled() -> None:
    """The example of TensorFlow Lite Micro's planner: each is in conflict with the buffers before and after it."""
    sizes, near = {0: 10, 1: 40, 2: 30, 3: 10}, {0: 0b0010, 1: 0b0101, 2: 0b1010, 3: 0b0100}
    assert arena.place(sizes, near, 1) == {1: 0, 2: 40, 0: 40, 3: 0}
    assert arena.place(sizes, dict.fromkeys(sizes, 0b1111), 16) == {1: 0, 2: 48, 0: 80, 3: 96}


@pytest.mark.slow
@examples(200)
@given(plans.plans(layers=6, items=3))
def test_no_interleaving_overwrites_what_is_still_to_be_read(made: Plan) -> None:
    found = reused(made)
    assert check(found) == ()
    assert not any(goes_wrong(found, count) for count in (1, 2))
    assert buffer_bytes(found.network, found.tasks) <= buffer_bytes(made.network, made.tasks)


@pytest.mark.slow
@examples(300)
@given(plans.plans(layers=4, items=3), st.data())
def test_the_check_of_offsets_agrees_with_all_interleavings(made: Plan, data: st.DataObject) -> None:
    """Compare them at offsets that no planner has chosen.

    The check refuses buffers of two stages, even where one item orders them.
    """
    offsets = st.none() | st.sampled_from([0, 2, 4, 8])
    tasks = [dataclasses.replace(t, offset=data.draw(offsets) if t.buffers == 1 else None) for t in made.tasks]
    changed = dataclasses.replace(made, block=256, tasks=tuple(tasks))
    placed = [(found, task.stage) for task in tasks if (found := span(made.network, task))]
    pairs = itertools.combinations(placed, 2)
    of_two_stages = any(overlap(one, other) and stage != late for (one, stage), (other, late) in pairs)
    assert bool(check(changed)) == (of_two_stages or any(goes_wrong(changed, count) for count in (1, 2)))


@pytest.mark.slow
@examples(200)
@given(plans.plans(layers=6, items=3))
def test_a_layer_is_kept_exactly_if_no_later_task_writes_over_it(made: Plan) -> None:
    found = reused(made)
    spans = [span(found.network, task) for task in found.tasks]
    order = [step.task for schedule in found.schedules for step in schedule if isinstance(step, plan.Compute)]
    for index, layer in enumerate(found.network.layers):
        read = any(layer.output.name in other.sources for other in found.network.layers)
        assert found.kept[index] or read, "a result is always kept"
        if found.kept[index] and len(found.items) == 1:
            one = next(number for number, task in enumerate(found.tasks) if task.layer == index)
            for other in order[order.index(one) + 1 :]:
                assert not overlap(spans[one], spans[other])  # type: ignore[arg-type]


def test_a_pair_that_is_needed_at_once_is_named(host: Profile) -> None:
    planned = plans.make(plans.chain(), host)
    tasks = tuple(dataclasses.replace(task, offset=0) if task.layer in {0, 1} else task for task in planned.tasks)
    found = check(dataclasses.replace(planned, block=256, tasks=tasks))
    assert [each.kind for each in found] == ["overwrite"]
    assert found[0].text.startswith("quantize and layer_0 share bytes 0 to 3 per vector of the arena, and no order")
    odd = tuple(dataclasses.replace(task, offset=1) if task.layer == 0 else task for task in planned.tasks)
    assert [each.kind for each in check(dataclasses.replace(planned, block=100, tasks=odd))] == ["structure"]


def test_a_buffer_that_is_read_in_the_next_tick_shares_nothing(host: Profile) -> None:
    """It is read before it is written again, and so is layer_0 before that; but layer_0 is written while it is read."""
    planned = plans.make(plans.chain((3, 4)), host)
    tasks = [dataclasses.replace(task, stage=int(task.layer > 0)) for task in planned.tasks]
    first, *rest = planned.schedules[0]
    late = dataclasses.replace(planned, block=256, tasks=tuple(tasks), schedules=((*rest, first),))
    assert check(late) == ()
    tasks[:2] = (dataclasses.replace(task, offset=0) for task in tasks[:2])
    shared = dataclasses.replace(late, tasks=tuple(tasks))
    assert [each.text.partition(" per")[0] for each in check(shared)] == ["quantize and layer_0 share bytes 0 to 3"]
    assert goes_wrong(shared, 2)


def test_stages_of_a_pipeline_and_copies_share_nothing(host: Profile) -> None:
    made = reused(plans.make(plans.chain((8, 8, 8, 8, 8)), host, "layer_1=right", "pipeline"))
    assert [task.stage for task in made.tasks if task.offset is not None] == [0, 2, 2, 2, 2]
    for one, other in itertools.combinations(made.tasks, 2):
        spans = span(made.network, one), span(made.network, other)
        assert one.buffers == 1 or spans[0] is None
        assert one.stage == other.stage or None in spans or not overlap(*spans)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("most", "budget_mib", "own", "shared"),
    [(300_000, 64, 300_000, 300_000), (300_000, 1, 17_772, 29_120), (1000, 1, 1000, 1000), (5, 1, 5, 5)],
)
def test_a_larger_block_fits_with_reuse(most: int, budget_mib: int, own: int, shared: int, host: Profile) -> None:
    net = plans.chain((3, 8, 8, 4))
    board = host.model_copy(update={"block": most, "memory_budget_mib": budget_mib})
    planned = planner.make(net, board, buffers="reuse")
    assert (planner.make(net, board).block, planned.block) == (own, shared)
    assert planned.block * buffer_bytes(net, planned.tasks) <= budget_mib << 20
    assert all((task.offset or 0) * planned.block % arena.PERIOD == 0 for task in planned.tasks)
    bundle.check_targets(planned, board)


def test_a_plan_without_reuse_has_no_arena(host: Profile) -> None:
    planned = planner.make(plans.chain(), host)
    assert planned.arena == 0
    assert all(planned.kept)
    assert "arena" not in codegen.generate(planned).source


def test_a_buffer_of_a_device_is_not_in_the_arena(host: Profile) -> None:
    planned = planner.make(plans.chain(), host, ("c", "cuda:layerwise"), split=("layer_0=network",), buffers="reuse")
    assert {planned.items[task.item].target for task in planned.tasks if task.offset is None} == {"cuda:layerwise"}
    tasks = tuple(dataclasses.replace(task, offset=(1 << 20) + task.layer * 256) for task in planned.tasks)
    with pytest.raises(RequestError, match="target cuda:layerwise accesses it at any time between two hand-overs"):
        codegen.generate(dataclasses.replace(planned, tasks=tasks))
