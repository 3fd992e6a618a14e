"""Which item computes what, and that items can follow their schedules."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import plan
from harness.errors import RequestError
from harness.network import Layer, Network
from harness.plan import Barrier, Compute, Cross, Item, Step
from harness.profile import ItemProfile, Profile
from tests import builders
from tests.kernels.board_program import parse


@pytest.fixture(scope="module")
def net() -> Network:
    """quantize, layer_0, layer_1, dequantize, advisory"""
    return parse(builders.random_network(np.random.default_rng(1), (3, 4, 2), dequantize=True, argmax=True))


def with_items(board: Profile, **items: ItemProfile) -> Profile:
    return board.model_copy(update={"items": items})


def test_layers_go_to_the_items_that_claim_them_and_hand_over_where_the_item_changes(
    net: Network, host: Profile
) -> None:
    made = plan.make(net, host)
    assert (made.board, made.network, made.block) == ("host", net, 1000)
    assert made.items == (Item("prepost", "c", None), Item("network", "c", None))
    assert made.owner == (0, 1, 1, 0, 0)
    assert made.barriers == (Barrier("quantize", (0, 1)), Barrier("layer_1", (1, 0)))
    assert made.schedules == (
        (Compute(0), Cross(0), Cross(1), Compute(3), Compute(4)),
        (Cross(0), Compute(1), Compute(2), Cross(1)),
    )


def test_cores_and_targets_come_from_the_profile(net: Network, host: Profile) -> None:
    board = with_items(
        host,
        edge=ItemProfile(target="c", core=1, operators=("QuantizeLinear", "DequantizeLinear", "ArgMax")),
        dsp=ItemProfile(target="tiovx", operators=("QGemm",)),
    )
    assert plan.make(net, board).items == (Item("edge", "c", 1), Item("dsp", "tiovx", None))


def test_one_item_that_computes_everything_never_waits(net: Network, host: Profile) -> None:
    board = with_items(
        host, all=ItemProfile(target="c", operators=("QuantizeLinear", "QGemm", "DequantizeLinear", "ArgMax"))
    )
    made = plan.make(net, board)
    assert made.barriers == ()
    assert made.schedules == (tuple(Compute(layer) for layer in range(5)),)


def test_items_without_work_are_left_out(net: Network, host: Profile) -> None:
    board = with_items(
        host,
        idle=ItemProfile(target="c", operators=("ArgMin",)),
        first=ItemProfile(target="c", operators=("QuantizeLinear",)),
        rest=ItemProfile(target="c", operators=("QGemm", "DequantizeLinear", "ArgMax")),
    )
    made = plan.make(net, board)
    assert [item.name for item in made.items] == ["first", "rest"]
    assert made.owner == (0, 1, 1, 1, 1)


def test_targets_can_be_replaced_in_the_order_of_the_profile(net: Network, host: Profile) -> None:
    assert [item.target for item in plan.make(net, host, ["c", "cuda"]).items] == ["c", "cuda"]


@pytest.mark.parametrize("targets", [[], ["c"], ["c", "c", "c"]])
def test_the_wrong_number_of_targets_is_refused(net: Network, host: Profile, targets: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        plan.make(net, host, targets)
    assert caught.value.message == f"--items names {len(targets)} targets, but board host has 2 items"
    assert caught.value.hint == "one target for each of: prepost, network"


def test_an_operator_without_an_item_is_refused(net: Network, host: Profile) -> None:
    board = with_items(host, network=ItemProfile(target="c", operators=("QuantizeLinear", "QGemm", "ArgMax")))
    with pytest.raises(RequestError) as caught:
        plan.make(net, board)
    assert caught.value.message == "board host: no item computes DequantizeLinear (layer dequantize)"
    assert "QuantizeLinear, QGemm, Add, DequantizeLinear, ArgMax, ArgMin" in caught.value.hint


def test_the_block_is_the_profiles_unless_one_is_asked_for(net: Network, host: Profile) -> None:
    board = host.model_copy(update={"block": 77})
    assert plan.make(net, board).block == 77
    assert plan.make(net, board, block=1).block == 1


LONGEST = 8
LAYERS = parse(builders.random_network(np.random.default_rng(2), [1] * LONGEST)).layers


@given(st.integers(1, 4).flatmap(lambda items: st.lists(st.integers(0, items - 1), min_size=1, max_size=LONGEST)))
def test_items_that_follow_their_schedules_compute_the_layers_in_order(owner: list[int]) -> None:
    barriers, schedules = plan._schedule(LAYERS[: len(owner)], owner, 4)
    assert [compute for compute, _ in execute(barriers, schedules)] == list(range(len(owner)))
    assert [item for _, item in execute(barriers, schedules)] == owner
    assert len(barriers) == sum(a != b for a, b in itertools.pairwise(owner))


Schedules = tuple[tuple[Step, ...], ...]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Layer], list[int]]:
    """Layers that read one or two of those before them, or the input "x", and the items (0 to 3) of them."""
    layers: list[Layer] = []
    for index in range(draw(st.integers(1, 10))):
        tensors = st.sampled_from(["x", *(layer.output for layer in layers)])
        sources = tuple(draw(st.lists(tensors, min_size=1, max_size=2)))
        named = dataclasses.replace(LAYERS[0], name=f"layer_{index}", output=f"tensor_{index}", sources=sources)
        layers.append(named)
    return layers, draw(st.lists(st.integers(0, 3), min_size=len(layers), max_size=len(layers)))


def early_reads(layers: list[Layer], barriers: tuple[Barrier, ...], schedules: Schedules) -> list[tuple[str, str]]:
    """(reader, tensor) for every read that can come before its write: before one of the items, all others run ahead."""
    found = []
    for slow in range(len(schedules)):
        order = [layer for layer, _ in execute(barriers, schedules, slow)]
        written = {"x"}
        for index in order:
            found += [(layers[index].name, source) for source in layers[index].sources if source not in written]
            written.add(layers[index].output)
    return found


@given(graphs())
def test_nothing_is_read_before_it_is_written_and_every_barrier_is_needed(graph: tuple[list[Layer], list[int]]) -> None:
    layers, owner = graph
    barriers, schedules = plan._schedule(layers, owner, 4)
    assert sorted(execute(barriers, schedules)) == list(enumerate(owner))
    assert early_reads(layers, barriers, schedules) == []
    for left_out in range(len(barriers)):
        fewer = tuple(tuple(step for step in schedule if step != Cross(left_out)) for schedule in schedules)
        assert early_reads(layers, barriers, fewer) != []


def test_a_residual_network_hands_over_codes_once_and_sums_once(host: Profile) -> None:
    made = plan.make(parse(builders.random_network(np.random.default_rng(1), (3, 4, 2), residual=2)), host)
    assert made.owner == (0, 1, 1, 1, 0, 1, 1, 1)
    assert made.barriers == (
        Barrier("quantize", (0, 1)),
        Barrier("layer_0_sum_2", (1, 0)),
        Barrier("layer_0_quantize", (0, 1)),
    )
    assert made.schedules == (
        (Compute(0), Cross(0), Cross(1), Compute(4), Cross(2)),
        (Cross(0), Compute(1), Compute(2), Compute(3), Cross(1), Cross(2), Compute(5), Compute(6), Compute(7)),
    )


def test_terms_of_one_item_are_handed_over_together_and_what_was_handed_over_is_not_again(host: Profile) -> None:
    board = with_items(
        host,
        products=ItemProfile(target="c", operators=("QuantizeLinear", "QGemm")),
        sums=ItemProfile(target="c", operators=("Add",)),
    )
    net = parse(builders.random_network(np.random.default_rng(1), (3, 2), residual=3))
    made = plan.make(net, board)
    assert [layer.name for layer in net.layers] == [
        "quantize", "layer_0_term_1", "layer_0_term_2", "layer_0_sum_2", "layer_0_term_3", "layer_0_sum_3",
    ]  # fmt: skip
    assert made.barriers == (Barrier("layer_0_term_2", (0, 1)), Barrier("layer_0_term_3", (0, 1)))
    assert made.schedules == (
        (Compute(0), Compute(1), Compute(2), Cross(0), Compute(4), Cross(1)),
        (Cross(0), Compute(3), Cross(1), Compute(5)),
    )


def execute(barriers: tuple[Barrier, ...], schedules: Schedules, slow: int = 0) -> list[tuple[int, int]]:
    """Walk through the schedules as threads would: (layer, item) in the order of computation.

    Item `slow` takes a step only when no other can.
    """
    position = [0] * len(schedules)
    computed: list[tuple[int, int]] = []

    def waits_at(item: int, barrier: int) -> bool:
        return schedules[item][position[item] : position[item] + 1] == (Cross(barrier),)

    def advance(item: int) -> bool:
        step = schedules[item][position[item]]
        if isinstance(step, Cross):
            parties = barriers[step.barrier].items
            if not all(waits_at(party, step.barrier) for party in parties):
                return False
            for party in parties:
                position[party] += 1
            return True
        computed.append((step.layer, item))
        position[item] += 1
        return True

    order = sorted(range(len(schedules)), key=lambda item: item == slow)
    while unfinished := [item for item in order if position[item] < len(schedules[item])]:
        assert any(advance(item) for item in unfinished), "deadlock"
    return computed
