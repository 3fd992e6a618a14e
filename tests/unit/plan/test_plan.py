"""Which item computes what, and that items can follow their schedules."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.profile import ItemProfile, Profile
from harness.core.errors import EXIT_INFRASTRUCTURE, InfrastructureError, RequestError
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.plan import conformance, plan_check, planner, schedule
from harness.plan.plan import Compute, Cross, HandOver, Item, Plan, Step, Sync, Task
from tests.support import builders, float_images, images
from tests.support.programs.board_program import parse


@pytest.fixture(scope="module")
def net() -> Network:
    """quantize, layer_0, layer_1, dequantize, advisory"""
    return parse(builders.random_network(np.random.default_rng(1), (3, 4, 2), dequantize=True, argmax=True))


def with_items(board: Profile, **items: ItemProfile) -> Profile:
    return board.model_copy(update={"items": items})


def owner(made: Plan) -> tuple[int, ...]:
    """The item of every task."""
    return tuple(task.item for task in made.tasks)


def test_layers_go_to_the_items_that_claim_them_and_hand_over_where_the_item_changes(
    net: Network, host: Profile
) -> None:
    plan = planner.make(net, host)
    assert (plan.board, plan.network, plan.block) == ("host", net, 1000)
    assert plan.items == (Item("prepost", "c", None), Item("network", "c", None))
    assert owner(plan) == (0, 1, 1, 0, 0)
    assert plan.hand_overs == (HandOver("quantize", (0, 1)), HandOver("layer_1", (1, 0)))
    assert plan.schedules == (
        (Compute(0), Cross(0), Cross(1), Compute(3), Compute(4)),
        (Cross(0), Compute(1), Compute(2), Cross(1)),
    )


def test_cores_and_targets_come_from_the_profile(net: Network, host: Profile) -> None:
    board = with_items(
        host,
        edge=ItemProfile(target="c", core=1, operators=("QuantizeLinear", "DequantizeLinear", "ArgMax")),
        dsp=ItemProfile(target="tiovx:c7x", operators=("QGemm",)),
    )
    assert planner.make(net, board).items == (Item("edge", "c", 1), Item("dsp", "tiovx:c7x", None))


def test_one_item_that_computes_everything_never_waits(net: Network, host: Profile) -> None:
    board = with_items(
        host, all=ItemProfile(target="c", operators=("QuantizeLinear", "QGemm", "DequantizeLinear", "ArgMax"))
    )
    plan = planner.make(net, board)
    assert plan.hand_overs == ()
    assert plan.schedules == (tuple(Compute(layer) for layer in range(5)),)


def test_items_without_work_are_left_out(net: Network, host: Profile) -> None:
    board = with_items(
        host,
        idle=ItemProfile(target="c", operators=("ArgMin",)),
        first=ItemProfile(target="c", operators=("QuantizeLinear",)),
        rest=ItemProfile(target="c", operators=("QGemm", "DequantizeLinear", "ArgMax")),
    )
    plan = planner.make(net, board)
    assert [item.name for item in plan.items] == ["first", "rest"]
    assert owner(plan) == (0, 1, 1, 1, 1)


def test_targets_can_be_replaced_in_the_order_of_the_profile(net: Network, host: Profile) -> None:
    assert [item.target for item in planner.make(net, host, ["c", "cuda:fused"]).items] == ["c", "cuda:fused"]


@pytest.mark.parametrize(("targets", "count"), [([], "0 targets"), (["c"], "1 target"), (["c", "c", "c"], "3 targets")])
def test_the_wrong_number_of_targets_is_refused(net: Network, host: Profile, targets: list[str], count: str) -> None:
    with pytest.raises(RequestError) as caught:
        planner.make(net, host, targets)
    assert caught.value.message == f"--items names {count}, but board host has 2 items"
    assert caught.value.hint == "one target for each of: prepost, network"


def test_an_operator_without_an_item_is_refused(net: Network, host: Profile) -> None:
    board = with_items(host, network=ItemProfile(target="c", operators=("QuantizeLinear", "QGemm", "ArgMax")))
    with pytest.raises(RequestError) as caught:
        planner.make(net, board)
    assert caught.value.message == "board host: no item computes DequantizeLinear (layer dequantize)"
    assert caught.value.hint == "add it to the operators of network in boards.yaml, or leave the operators of one out"


def test_the_block_is_the_profiles_unless_one_is_asked_for(net: Network, host: Profile) -> None:
    board = host.model_copy(update={"block": 77})
    assert planner.make(net, board).block == 77
    assert planner.make(net, board, block=1).block == 1


SYNCS: tuple[Sync, ...] = ("barrier", "flag")
LONGEST = 8
LAYERS = parse(builders.random_network(np.random.default_rng(2), [1] * LONGEST)).layers
Schedules = tuple[tuple[Step, ...], ...]


def whole(owners: list[int]) -> list[Task]:
    return [Task(f"layer_{index}", index, item, 0, 1) for index, item in enumerate(owners)]


def scheduled(layers: Sequence[Layer], owners: list[int], sync: Sync) -> tuple[tuple[HandOver, ...], Schedules]:
    return schedule.schedule(layers, whole(owners), 4, sync)


@given(st.integers(1, 4).flatmap(lambda items: st.lists(st.integers(0, items - 1), min_size=1, max_size=LONGEST)))
def test_items_that_follow_their_schedules_compute_the_layers_in_order(owners: list[int]) -> None:
    for sync in SYNCS:
        hand_overs, schedules = scheduled(LAYERS[: len(owners)], owners, sync)
        assert execute(hand_overs, schedules, sync) == list(enumerate(owners))
        assert len(hand_overs) == sum(a != b for a, b in itertools.pairwise(owners))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Layer], list[int]]:
    """Layers that read one or two of those before them, or the input "x", and the items (0 to 3) of them."""
    layers: list[Layer] = []
    for index in range(draw(st.integers(1, 10))):
        tensors = st.sampled_from(["x", *(layer.output.name for layer in layers)])
        sources = tuple(draw(st.lists(tensors, min_size=1, max_size=2)))
        named = dataclasses.replace(
            LAYERS[0],
            name=f"layer_{index}",
            output=dataclasses.replace(LAYERS[0].output, name=f"tensor_{index}"),
            inputs=tuple(dataclasses.replace(LAYERS[0].input, name=source) for source in sources),
        )
        layers.append(named)
    return layers, draw(st.lists(st.integers(0, 3), min_size=len(layers), max_size=len(layers)))


def early_reads(
    layers: list[Layer], hand_overs: tuple[HandOver, ...], schedules: Schedules, sync: Sync
) -> list[tuple[str, str]]:
    """(reader, tensor) for every read that can come before its write: before one of the items, all others run ahead."""
    found = []
    for slow in range(len(schedules)):
        order = [layer for layer, _ in execute(hand_overs, schedules, sync, slow)]
        written = {"x"}
        for index in order:
            found += [(layers[index].name, source) for source in layers[index].sources if source not in written]
            written.add(layers[index].output.name)
    return found


@pytest.mark.parametrize("sync", SYNCS)
@given(graph=graphs())
def test_nothing_is_read_before_it_is_written_and_every_hand_over_is_needed(
    sync: Sync, graph: tuple[list[Layer], list[int]]
) -> None:
    layers, owners = graph
    hand_overs, schedules = scheduled(layers, owners, sync)
    assert sorted(execute(hand_overs, schedules, sync)) == list(enumerate(owners))
    assert early_reads(layers, hand_overs, schedules, sync) == []
    for left_out in range(len(hand_overs)):
        fewer = tuple(tuple(step for step in steps if step != Cross(left_out)) for steps in schedules)
        assert early_reads(layers, hand_overs, fewer, sync) != []


def test_a_residual_network_hands_over_codes_once_and_sums_once(host: Profile) -> None:
    plan = planner.make(parse(builders.random_network(np.random.default_rng(1), (3, 4, 2), residual=2)), host)
    assert owner(plan) == (0, 1, 1, 1, 0, 1, 1, 1)
    assert plan.hand_overs == (
        HandOver("quantize", (0, 1)),
        HandOver("layer_0_sum_2", (1, 0)),
        HandOver("layer_0_quantize", (0, 1)),
    )
    assert plan.schedules == (
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
    plan = planner.make(net, board)
    assert [layer.name for layer in net.layers] == [
        "quantize", "layer_0_term_1", "layer_0_term_2", "layer_0_sum_2", "layer_0_term_3", "layer_0_sum_3",
    ]  # fmt: skip
    assert plan.hand_overs == (HandOver("layer_0_term_2", (0, 1)), HandOver("layer_0_term_3", (0, 1)))
    assert plan.schedules == (
        (Compute(0), Compute(1), Compute(2), Cross(0), Compute(4), Cross(1)),
        (Cross(0), Compute(3), Cross(1), Compute(5)),
    )


def execute(hand_overs: tuple[HandOver, ...], schedules: Schedules, sync: Sync, slow: int = 0) -> list[tuple[int, int]]:
    """Walk through the schedules as threads would: (layer, item) in the order of computation.

    Item `slow` takes a step only when no other can.
    """
    position = [0] * len(schedules)
    computed: list[tuple[int, int]] = []
    raised: set[int] = set()

    def waits_at(item: int, hand_over: int) -> bool:
        return schedules[item][position[item] : position[item] + 1] == (Cross(hand_over),)

    def cross(item: int, hand_over: int) -> bool:
        items = hand_overs[hand_over].items
        together = items if sync == "barrier" else (item,)
        if sync == "barrier" and not all(waits_at(party, hand_over) for party in items):
            return False
        if sync == "flag" and item != items[0] and hand_over not in raised:
            return False
        raised.add(hand_over)
        for party in together:
            position[party] += 1
        return True

    def advance(item: int) -> bool:
        step = schedules[item][position[item]]
        if isinstance(step, Cross):
            return cross(item, step.hand_over)
        computed.append((step.task, item))
        position[item] += 1
        return True

    while unfinished := [item for item in range(len(schedules)) if position[item] < len(schedules[item])]:
        willing = sorted(unfinished, key=lambda item: item == slow)
        assert any(advance(item) for item in willing), "the items wait for each other for ever"
    return computed


# --split


def lanes(made: Plan) -> dict[str, list[str]]:
    """Item by item its steps: the names of its tasks, and of hand-overs with a bar in front."""
    return {
        item.name: [
            made.tasks[step.task].name if isinstance(step, Compute) else f"|{made.hand_overs[step.hand_over].name}"
            for step in steps
        ]
        for item, steps in zip(made.items, made.schedules, strict=True)
    }


@pytest.fixture(scope="module")
def spare(host: Profile) -> Profile:
    """A board with an item that computes nothing unless a split says so."""
    return with_items(host, **host.items, spare=ItemProfile(target="c"))


def test_a_layer_that_is_offloaded_is_handed_over_there_and_back(net: Network, host: Profile) -> None:
    assert lanes(planner.make(net, host, split=["layer_1=prepost"])) == {
        "prepost": ["quantize", "|quantize", "|layer_0", "layer_1", "dequantize", "advisory"],
        "network": ["|quantize", "layer_0", "|layer_0"],
    }


def test_a_range_goes_to_one_item_and_later_words_override(net: Network, host: Profile) -> None:
    plan = planner.make(net, host, split=["quantize..advisory=network", "advisory=prepost"])
    assert [plan.items[task.item].name for task in plan.tasks] == ["network"] * 4 + ["prepost"]


def test_items_without_an_operator_work_only_where_a_split_says_so(net: Network, spare: Profile) -> None:
    assert [item.name for item in planner.make(net, spare).items] == ["prepost", "network"]
    assert [item.name for item in planner.make(net, spare, split=["layer_0=spare"]).items] == [
        "prepost",
        "network",
        "spare",
    ]


def test_each_part_of_a_parallel_layer_is_handed_to_its_reader(net: Network, spare: Profile) -> None:
    plan = planner.make(net, spare, split=["layer_0=prepost+network+spare"])
    shares = [(task.name, plan.items[task.item].name, task.start, task.stop) for task in plan.tasks_of(1)]
    assert shares == [("layer_0_0", "prepost", 0, 1), ("layer_0_1", "network", 1, 2), ("layer_0_2", "spare", 2, 4)]
    assert plan.reads[4] == (1, 2, 3)
    assert lanes(plan) == {
        "prepost": ["quantize", "|quantize", "layer_0_0", "|layer_0_0", "|layer_1", "dequantize", "advisory"],
        "network": ["|quantize", "layer_0_1", "|layer_0_0", "|layer_0_2", "layer_1", "|layer_1"],
        "spare": ["|quantize", "layer_0_2", "|layer_0_2"],
    }


def test_the_part_of_a_task_holds_its_columns_of_every_constant(net: Network, host: Profile) -> None:
    plan = planner.make(net, host, split=["layer_0=prepost+network"])
    layer = net.layers[1]
    parts = [plan.part(task) for task in plan.tasks_of(1)]
    assert isinstance(layer, QGemm)
    assert [part.name for part in parts] == ["layer_0_0", "layer_0_1"]
    for field in ("weights", "weights_zero_point", "bias", "multiplier"):
        joined = np.concatenate([getattr(part, field) for part in parts], axis=-1)
        assert joined.tobytes() == getattr(layer, field).tobytes()
    assert plan.part(plan.tasks[0]) is net.layers[0]


def test_parallel_takes_every_layer_that_is_wide_enough(net: Network, spare: Profile) -> None:
    plan = planner.make(net, spare, split=["parallel"])
    assert [len(plan.tasks_of(layer)) for layer in range(5)] == [1, 3, 1, 1, 1]
    assert [len(planner.make(net, spare, split=["parallel=network+spare"]).tasks_of(layer)) for layer in (1, 2)] == [
        2,
        2,
    ]


def test_a_pipeline_has_stages_and_copies_of_what_a_later_stage_reads(net: Network, host: Profile) -> None:
    plan = planner.make(net, host, split=["pipeline"])
    assert [(task.stage, task.buffers) for task in plan.tasks] == [(0, 2), (1, 1), (1, 2), (2, 1), (2, 1)]
    assert (plan.depth, plan.hand_overs) == (3, ())
    assert lanes(plan) == {"prepost": ["quantize", "dequantize", "advisory"], "network": ["layer_0", "layer_1"]}


def test_what_skips_a_stage_is_kept_for_longer(spare: Profile) -> None:
    words = ["layer_0_term_1=prepost", "layer_0_term_2=spare", "pipeline"]
    plan = planner.make(branching(), spare, split=words)
    assert [(task.name, task.stage, task.buffers) for task in plan.tasks[:4]] == [
        ("quantize", 0, 2), ("layer_0_term_1", 0, 3), ("layer_0_term_2", 1, 2), ("layer_0_sum_2", 2, 2),
    ]  # fmt: skip


def test_a_part_on_the_item_of_its_source_waits_for_the_others_of_its_layer(net: Network, host: Profile) -> None:
    plan = planner.make(net, host, split=["layer_0=prepost+network", "pipeline"])
    assert [(task.name, task.stage, task.buffers) for task in plan.tasks[:3]] == [
        ("quantize", 0, 2), ("layer_0_0", 1, 2), ("layer_0_1", 1, 2),
    ]  # fmt: skip


def branching() -> Network:
    return parse(builders.random_network(np.random.default_rng(1), (3, 4, 2), residual=2))


def test_branches_go_to_items_of_their_own_and_meet_where_they_join(spare: Profile) -> None:
    plan = planner.make(branching(), spare, split=["branches=network+spare"])
    assert {item: steps[:7] for item, steps in lanes(plan).items()} == {
        "network": [
            "quantize", "|quantize", "layer_0_term_1", "|layer_0_term_2", "layer_0_sum_2", "layer_0_quantize",
            "|layer_0_quantize",
        ],
        "spare": [
            "|quantize", "layer_0_term_2", "|layer_0_term_2", "|layer_0_quantize", "layer_1_term_2", "|layer_1_term_2",
        ],
    }  # fmt: skip


def test_items_that_share_layer_behind_layer_all_meet_once_between_them(spare: Profile) -> None:
    net = parse(builders.random_network(np.random.default_rng(1), (4, 6, 6, 3)))
    plan = planner.make(net, spare, split=["layer_0..layer_1=prepost+network+spare"])
    assert [(hand_over.name, hand_over.items) for hand_over in plan.hand_overs] == [
        ("quantize", (0, 1, 2)), ("layer_0_2", (2, 0, 1)), ("layer_1_0", (0, 1)), ("layer_1_2", (2, 1)),
    ]  # fmt: skip
    by_flag = planner.make(net, spare, split=["layer_0..layer_1=prepost+network+spare"], sync="flag")
    assert [(hand_over.name, hand_over.items) for hand_over in by_flag.hand_overs] == [
        ("quantize", (0, 1, 2)), ("layer_0_0", (0, 1, 2)), ("layer_0_1", (1, 0, 2)), ("layer_0_2", (2, 0, 1)),
        ("layer_1_0", (0, 1)), ("layer_1_2", (2, 1)),
    ]  # fmt: skip


def test_a_split_of_a_hundred_layers_is_scheduled_at_once(spare: Profile) -> None:
    items = {f"item_{number}": ItemProfile(target="c") for number in range(6)}
    board = with_items(spare, **spare.items, **items)
    net = parse(builders.random_network(np.random.default_rng(1), [2] * 99))
    words = [f"layer_{number}=item_{number % 6}" for number in range(98)]
    assert len(planner.make(net, board, split=words).hand_overs) == 98


NO_SPLITS = {
    "layer_9=network": ("unknown layer 'layer_9'", "layer_0"),
    "layer_0=gpu": ("unknown item 'gpu'", "network, prepost"),
    "layer_0": ("says nothing", "FIRST..LAST=ITEM"),
    "layer_0=": ("says nothing", "pipeline"),
    "=network": ("says nothing", "pipeline"),
    "": ("says nothing", "pipeline"),
    "layer_1..quantize=network": ("quantize comes before layer_1 in the model", "quantize..layer_1"),
    "..layer_0=network": ("says nothing", "FIRST..LAST=ITEM"),
    " parallel": ("says nothing", "no blanks"),
    "advisory=prepost+network": ("layer advisory (ArgMax) cannot be split", "possible: advisory=ITEM"),
    "layer_0=prepost+network:rows": ("layer layer_0 (QGemm) cannot be split by rows", "layer_0=ITEM+ITEM for"),
    "layer_0=prepost+network:row": ("no layer is divided by 'row'", "by channels or rows"),
    "layer_0=prepost:rows": ("rows for prepost alone", "ITEM+ITEM:rows"),
    "branches=prepost+network:rows": ("no layer is divided by 'rows'", "LAYER=ITEM+ITEM:rows"),
    "parallel=prepost+network:rows": ("no layer of network can be split over 2 items", "a row at least"),
    "layer_0=network+network": ("item network is named twice", "once"),
    "branches": ("network has no parallel branches for 2 items", "pipeline"),
    "parallel=network": ("there is only network to split over", "two items"),
    "branches=prepost": ("there is only prepost to split over", "two items"),
    "layer_0=prepost,layer_0=network": ("item prepost is left without work", "leave it out"),
    "quantize..advisory=network,pipeline": ("one item of board host computes all of network", "FIRST..LAST=ITEM"),
}


@pytest.mark.parametrize(("words", "said"), NO_SPLITS.items(), ids=NO_SPLITS)
def test_a_split_that_cannot_be_is_refused_by_name(
    net: Network, host: Profile, words: str, said: tuple[str, str]
) -> None:
    with pytest.raises(RequestError) as caught:
        planner.make(net, host, split=words.split(","))
    message, hint = said
    assert caught.value.message.startswith("split ")
    assert message in caught.value.message
    assert hint in caught.value.hint


NO_IMAGES = {
    "conv=prepost+network+spare": (
        "has 2 groups of channels, too few for 3",
        "conv=ITEM+ITEM for 2 groups of channels",
    ),
    "mean=prepost+network:rows": ("(QLinearGlobalAveragePool) cannot be split by rows", "ITEM+ITEM for 4 channels"),
    "transposed=prepost+network": ("(Transpose) cannot be split", "possible: transposed=ITEM"),
    "largest=prepost+network+spare:columns": ("no layer is divided by 'columns'", "by channels or rows"),
    "most=prepost+network:rows": ("(GlobalMaxPool) has 1 row, too few for 2", "most=ITEM+ITEM for 9 channels"),
}


@pytest.mark.parametrize(("word", "said"), NO_IMAGES.items(), ids=NO_IMAGES)
def test_a_split_of_images_that_cannot_be_is_refused(spare: Profile, word: str, said: tuple[str, str]) -> None:
    message, hint = said
    net = float_images.every_operator("most") if word.startswith("most") else images.every_operator("uint8")
    with pytest.raises(RequestError, match=re.escape(message)) as caught:
        planner.make(net, spare, split=[word])
    assert hint in caught.value.hint


def test_parallel_divides_the_rows_or_channels_of_layers_with_weights(spare: Profile) -> None:
    net = images.every_operator("int8", "conv", "largest", "mean", "columns")
    names = {"rows": ["conv"], "channels": ["conv", "mean", "columns"]}
    for way, divided in names.items():
        plan = planner.make(net, spare, split=[f"parallel=prepost+network:{way}"])
        assert [layer.name for index, layer in enumerate(net.layers) if len(plan.tasks_of(index)) > 1] == divided
        assert [task.runs for task in plan.tasks if task.name == "conv_1"] == [6 if way == "rows" else 1]


def test_more_items_than_columns_are_refused(spare: Profile) -> None:
    narrow = parse(builders.random_network(np.random.default_rng(1), (3, 2)))
    with pytest.raises(RequestError, match=r"layer layer_0 \(QGemm\) has 2 columns, too few for 3 items"):
        planner.make(narrow, spare, split=["layer_0=prepost+network+spare"])


def test_the_profile_s_split_and_sync_hold_unless_others_are_asked_for(net: Network, host: Profile) -> None:
    board = host.model_copy(update={"split": ("pipeline",), "sync": "flag"})
    plan = planner.make(net, board)
    assert (plan.depth, plan.sync) == (3, "flag")
    other = planner.make(net, board, split=[], sync="barrier")
    assert (other.depth, other.sync) == (1, "barrier")


def test_a_plan_that_fails_its_check_ends_the_command_as_infrastructure(net: Network, host: Profile) -> None:
    """Item 1 never waits for item 0: nothing was shown, and it is no bug of the command (exit code 4)."""
    plan = planner.make(net, host)
    first, second = plan.schedules
    unordered = dataclasses.replace(plan, schedules=(first, second[1:]))
    assessment = dataclasses.replace(plan_check.assess(plan), schedule=conformance.check(unordered))
    plan_check.require_sound(plan_check.assess(plan))
    with pytest.raises(InfrastructureError, match="plan check: the plan is wrong: ") as caught:
        plan_check.require_sound(assessment)
    assert caught.value.exit_code == EXIT_INFRASTRUCTURE
