"""Whole runs under delays: a missing hand-over, a wrong buffer, a stale vector; and right programs that hold."""

from __future__ import annotations

import numpy as np
import pytest

from harness.network import Network
from harness.plan import Plan
from harness.proof import Claim
from tests import builders
from tests.kernels.board_program import Patch, parse
from tests.proof.trials import VECTORS, Workshop

CHAIN = parse(builders.random_network(np.random.default_rng(5), (5, 6, 6, 4), argmax=True, per_column=True))
RESIDUAL = parse(builders.random_network(np.random.default_rng(2), (4, 6, 6, 5), residual=2, zero_points=True))


LAST_ALONE = "when nobody asks for the activations before it, which need not be handed out then, the last is the same"


def failing(claims: list[Claim]) -> list[str]:
    return [claim.question.statement for claim in claims if not claim.holds]


@pytest.mark.parametrize("net", [CHAIN, RESIDUAL], ids=["chain", "residual"])
def test_a_right_program_holds_in_every_block_and_whichever_item_is_slow(workshop: Workshop, net: Network) -> None:
    trial = workshop.trial(net)
    claims = trial.composed()
    slowed = [
        f"with item {item} slowed down the network gives the same activations, in blocks of {block}"
        for item in ("prepost", "network")
        for block in (1, 7, 64)
    ]
    assert [claim.question.statement for claim in claims] == [*slowed, LAST_ALONE]
    assert failing(claims) == []
    assert not any(claim.question.complete for claim in claims)
    assert {claim.question.cases for claim in claims[:-1]} == {VECTORS * sum(layer.width for layer in net.layers)}
    assert claims[-1].question.cases == VECTORS * net.layers[-1].width


@pytest.mark.parametrize(("block", "sizes"), [(1, (1,)), (5, (1, 5)), (50, (1, 7, 50))])
def test_blocks_that_the_program_cannot_run_are_not_claimed(
    workshop: Workshop, block: int, sizes: tuple[int, ...]
) -> None:
    claims = workshop.trial(CHAIN, block=block).composed()
    stated = [claim.question.statement.rsplit(" ", 1)[1] for claim in claims if claim.question.statement != LAST_ALONE]
    assert stated == [str(size) for size in sizes] * 2
    assert failing(claims) == []


def without_barrier(made: Plan, index: int) -> list[Patch]:
    """Neither item crosses it."""
    name = made.hand_overs[index].name
    counts = [
        Patch("network.c", f"{item.name}_steps, {len(steps)}}}", f"{item.name}_steps, {len(steps) - 1}}}")
        for item, steps in zip(made.items, made.schedules, strict=True)
    ]
    return [Patch("network.c", f"    {{STEP_MEET, {index}}}, /* {name} */\n", ""), *counts]


@pytest.mark.parametrize("net", [CHAIN, RESIDUAL], ids=["chain", "residual"])
def test_every_missing_barrier_is_found_when_its_writer_is_slow(workshop: Workshop, net: Network) -> None:
    made = workshop.trial(net).made
    assert len(made.hand_overs) >= 2
    for index, barrier in enumerate(made.hand_overs):
        trial = workshop.trial(net, without_barrier(made, index))
        giver = made.items[barrier.writer].name
        claims = trial.composed()
        slowed = [claim for claim in claims if f"with item {giver} slowed down" in claim.question.statement]
        assert len(slowed) == 3
        for claim in slowed:
            assert claim.counterexample.startswith(f"with a delay before every layer of item {giver}, layer ")
            reader = claim.counterexample.split("layer ")[-1].split(" ")[0]
            assert barrier.name not in reader
            assert any(task.name == reader and made.items[task.item].name != giver for task in made.tasks)


WRONG_BUFFERS = {
    "swapped": ("layer_1_accumulate(layer_0_output[v], acc)", "layer_1_accumulate(layer_0_output[v ^ 1], acc)"),
    "that before": ("layer_2_accumulate(layer_1_output[v], acc)", "layer_2_accumulate(layer_0_output[v], acc)"),
    "the vector before": (
        "layer_1_accumulate(layer_0_output[v], acc)", "layer_1_accumulate(layer_0_output[v ? v - 1 : 0], acc)"
    ),
    "not written": ("layer_1_finish(acc, layer_1_output[v])", "layer_1_finish(acc, layer_0_output[v])"),
    "only the first vector": ("advisory_compute(layer_2_output[v],", "advisory_compute(layer_2_output[0],"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), WRONG_BUFFERS.values(), ids=WRONG_BUFFERS)
def test_a_wrong_buffer_is_found_though_every_stage_is_right(workshop: Workshop, old: str, new: str) -> None:
    trial = workshop.trial(CHAIN, [Patch("network.c", old, new)])
    assert trial.refuted() == {}
    claims = trial.composed()
    in_blocks = [claim for claim in claims if not claim.question.statement.endswith("blocks of 1")]
    assert len(in_blocks) == 5
    assert all(claim.counterexample for claim in in_blocks)
