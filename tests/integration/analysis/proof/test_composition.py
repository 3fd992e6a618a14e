"""Whole runs under delays: a missing hand-over, a wrong buffer, a stale vector; and right programs that hold."""

from __future__ import annotations

import re

import numpy as np
import pytest

from harness.analysis.proof import Claim, composition
from harness.core.errors import BoardError
from harness.execution import program
from harness.model.network import Network
from harness.plan.plan import Plan, Sync
from harness.reference import generated
from tests.support import builders
from tests.support.programs.board_program import Patch, parse
from tests.support.proof.trials import EFFORT, VECTORS, Workshop

CHAIN = parse(builders.random_network(np.random.default_rng(5), (5, 6, 6, 4), argmax=True, per_column=True))
RESIDUAL = parse(builders.random_network(np.random.default_rng(2), (4, 6, 6, 5), residual=2, zero_points=True))


LAST_ALONE = "when nobody asks for the activations before it, which need not be handed out then, the last is the same"


MEASURED = "with the options of a measurement the network gives the same activations"
REPEATED = "every execution of the network in one process gives the same activations"
LATE = "the other items wait for item {}, also if it is late by "
SHIFTED = "items that are shifted against each other do not disturb each other, in blocks of "


def failing(claims: list[Claim]) -> list[str]:
    return [claim.question.statement for claim in claims if not claim.holds]


@pytest.mark.parametrize("net", [CHAIN, RESIDUAL], ids=["chain", "residual"])
def test_a_right_program_holds_in_every_block_and_whichever_item_is_slow(workshop: Workshop, net: Network) -> None:
    trial = workshop.trial(net)
    claims = trial.composed()
    delayed = [
        statement
        for item in ("prepost", "network")
        for statement in (
            *(
                f"with item {item} slowed down the network gives the same activations, in blocks of {block}"
                for block in (1, 7, 64, "random sizes from 1 to 64")
            ),
            f"{LATE.format(item)}0.05 s",
        )
    ]
    assert [claim.question.statement for claim in claims] == [*delayed, REPEATED, LAST_ALONE, MEASURED]
    assert failing(claims) == []
    assert not any(claim.question.complete for claim in claims)
    width = sum(layer.size for layer in net.layers)
    repeated = generated.passes(VECTORS, 4, composition.SEED, EFFORT.network)
    slowed = [VECTORS * width] * 4 + [64 * width]
    assert [claim.question.cases for claim in claims] == [
        *slowed,
        *slowed,
        VECTORS * width * repeated.passes,
        2 * VECTORS * net.layers[-1].size,
        VECTORS * (9 * width + 3 * net.layers[-1].size),
    ]
    assert f"{repeated.executions:,} executions in blocks of 1 to 4 vectors" in claims[10].question.method


@pytest.mark.parametrize(("block", "sizes"), [(1, (1,)), (5, (1, 5)), (50, (1, 7, 50))])
def test_blocks_that_the_program_cannot_run_are_not_claimed(
    workshop: Workshop, block: int, sizes: tuple[int, ...]
) -> None:
    claims = workshop.trial(CHAIN, block=block).composed()
    slowed = [claim.question.statement for claim in claims if "slowed down" in claim.question.statement]
    stated = [statement.rsplit(" ", 1)[1] for statement in slowed if "random" not in statement]
    assert stated == [str(size) for size in sizes] * 2
    assert [statement for statement in slowed if "random" in statement] == [
        statement for statement in slowed if statement.endswith(f"from 1 to {block}")
    ]
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
        assert len(slowed) == 4
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
    assert len(in_blocks) == 11
    assert all(claim.counterexample for claim in in_blocks)


def test_a_reader_that_does_not_wait_for_a_late_item_is_found(workshop: Workshop) -> None:
    """Its limit is longer than the short delays before each layer, and shorter than the long one."""
    gives_up = Patch(
        "kernels/program/schedule.c",
        "atomic_load_explicit(&flag->raised, memory_order_acquire) <= execution; ++spins)\n        if (spins >= SPINS)",
        "atomic_load_explicit(&flag->raised, memory_order_acquire) <= execution; ++spins)\n"
        "        if (spins > 8000)\n            break;\n        else if (spins >= SPINS)",
    )
    claims = workshop.trial(CHAIN, [gives_up], sync="flag").composed()
    late = [claim for claim in claims if claim.question.statement.startswith(LATE.format("network"))]
    assert [claim.holds for claim in late] == [False]
    assert late[0].counterexample == "with item network late by 0.05 s, layer advisory differs first"


# Programs whose buffers share bytes.


@pytest.mark.parametrize(("net", "sync"), [(CHAIN, "barrier"), (RESIDUAL, "flag")], ids=["chain", "residual"])
def test_a_right_program_with_an_arena_holds(workshop: Workshop, net: Network, sync: Sync) -> None:
    trial = workshop.trial(net, sync=sync, buffers="reuse")
    claims = [*trial.composed(), *trial.launched()]
    assert failing(claims) == []
    kept = sum(layer.size for layer, kept in zip(net.layers, trial.made.kept, strict=True) if kept)
    assert 0 < kept < sum(layer.size for layer in net.layers)
    assert claims[0].question.cases == VECTORS * kept
    [repeated] = [claim.question for claim in claims if claim.question.statement == REPEATED]
    passes = generated.passes(VECTORS, 4, composition.SEED, EFFORT.network).passes
    assert repeated.cases == VECTORS * net.layers[-1].size * passes
    assert repeated.method.endswith("the outputs of the last layer are compared")


@pytest.mark.parametrize(("old", "new"), WRONG_BUFFERS.values(), ids=WRONG_BUFFERS)
def test_a_wrong_buffer_in_an_arena_is_found(workshop: Workshop, old: str, new: str) -> None:
    trial = workshop.trial(CHAIN, [Patch("network.c", old, new)], buffers="reuse")
    in_blocks = [claim for claim in trial.composed() if not claim.question.statement.endswith("blocks of 1")]
    assert len(in_blocks) == 11
    assert all(claim.counterexample for claim in in_blocks)


def test_a_barrier_that_is_missing_before_bytes_are_written_again_is_found(workshop: Workshop) -> None:
    made = workshop.trial(CHAIN, buffers="reuse").made
    for index, barrier in enumerate(made.hand_overs):
        claims = workshop.trial(CHAIN, without_barrier(made, index), buffers="reuse").composed()
        giver = made.items[barrier.writer].name
        slowed = [claim for claim in claims if f"with item {giver} slowed down" in claim.question.statement]
        assert len(slowed) == 4
        assert all(claim.counterexample for claim in slowed)


# Programs that are wrong only in a mode, or only where items work at the same time.

INIT = "static void network_init(const struct options *options __attribute__((unused)))\n{\n"
OPTIONS = '#include "options.h"\n'
LAST_CALL = "advisory_compute(layer_2_output[v], advisory_output[v]);"


@pytest.mark.parametrize(
    ("mode", "claims"),
    [
        ("dump == DUMP_LAST", [LAST_ALONE, MEASURED]),
        ("dump == DUMP_LAST && options->time == TIME_NONE", [LAST_ALONE]),
        ("time == TIME_NETWORK", [LAST_ALONE, MEASURED]),
    ],
)
def test_a_program_that_is_wrong_in_deployment_mode_alone_is_found(
    workshop: Workshop, mode: str, claims: list[str]
) -> None:
    patches = [
        Patch("network.c", INIT, f"{INIT}    alone = options->{mode};\n"),
        Patch("network.c", "enum { BLOCK = 64 };", f"{OPTIONS}enum {{ BLOCK = 64 }}; static int alone;"),
        Patch("network.c", LAST_CALL, f"{LAST_CALL} advisory_output[v][0] ^= alone;"),
    ]
    trial = workshop.trial(CHAIN, patches)
    assert failing(trial.composed()) == claims
    np.save(trial.probe.scratch / "vectors.npy", np.zeros((9, 5), np.float32))
    layers = CHAIN.layers
    done = program.execute_chunk(
        trial.probe.deployed, 0, trial.probe.scratch / "vectors.npy", 9, layers, [], 60, deployment=True
    )
    assert done.deployed is not None
    assert done.deployed.sha256 != done.sha256[-1]
    wrong = program.collect_alone(trial.probe.deployed, done.deployed, layers[-1], 9)
    right = program.collect(trial.probe.deployed, done, [len(layers) - 1], layers, trial.probe.scratch)
    assert (wrong == right[len(layers) - 1] ^ 1).all()


@pytest.mark.parametrize(
    "mode", ["warmup == 3", "repeat > 1", "fifo", "time == TIME_ITEM", "time == TIME_LAYER", "dump && options->warmup"]
)
def test_a_program_that_is_wrong_in_a_mode_of_measurements_is_found(workshop: Workshop, mode: str) -> None:
    patches = [
        Patch("network.c", INIT, f"{INIT}    wrong = options->{mode};\n"),
        Patch("network.c", "enum { BLOCK = 64 };", f"{OPTIONS}enum {{ BLOCK = 64 }}; static int wrong;"),
        Patch("network.c", LAST_CALL, f"{LAST_CALL} advisory_output[v][0] ^= wrong != 0;"),
    ]
    [claim] = measured(workshop, patches)
    if mode == "fifo" and claim.observed:
        pytest.skip("this system permits no --fifo")
    assert not claim.holds


def measured(workshop: Workshop, patches: list[Patch]) -> list[Claim]:
    return [claim for claim in workshop.trial(CHAIN, patches).composed() if claim.question.statement == MEASURED]


def without_priority(workshop: Workshop, message: str) -> list[Claim]:
    """The system refuses --fifo with this message."""
    start = "void schedule_start(const struct options *options)\n{\n"
    refuses = f'{start}    if (options->fifo)\n        fail(EXIT_SYSTEM, "{message}");\n'
    return measured(workshop, [Patch("kernels/program/schedule.c", start, refuses)])


def test_a_priority_that_the_system_refuses_is_an_assumption(workshop: Workshop) -> None:
    [claim] = without_priority(workshop, "no priority of --fifo")
    assert claim.holds
    assert claim.observed.startswith("--fifo was refused and left out: the program on the board failed")
    assert [len(composition.untried([None, text])) for text in ("", claim.observed)] == [0, 1]
    with pytest.raises(BoardError, match="inference: another reason"):
        without_priority(workshop, "another reason")


def shared_scratch(made: Plan) -> list[Patch]:
    """Both items keep the sums of their columns of layer_0 in the same array."""
    return [
        Patch("network.c", "enum { BLOCK = 64 };", "enum { BLOCK = 64 }; static int32_t shared[64];"),
        *(
            Patch(
                "network.c",
                f"int32_t acc[3];\n        {task.name}_accumulate",
                f"int32_t *acc = shared;\n        {task.name}_accumulate",
            )
            for task in made.tasks_of(1)
        ),
    ]


def test_scratch_memory_that_two_items_share_is_found_when_they_work_at_the_same_time(workshop: Workshop) -> None:
    split = ["layer_0=prepost+network"]
    made = workshop.trial(CHAIN, split=split).made
    trial = workshop.trial(CHAIN, shared_scratch(made), split=split)
    assert trial.refuted() == {}
    for _ in range(20):  # threads overlap where two processors are free for them
        shifted = [claim for claim in trial.composed() if claim.question.statement.startswith(SHIFTED)]
        worked = [re.match(r"in ([0-9,]+) of [0-9,]+ executions two items worked", claim.observed) for claim in shifted]
        assert all(worked)
        if any(not claim.holds for claim in shifted):
            return
    pytest.fail("the shared memory was not found")


def test_items_that_never_work_at_the_same_time_are_not_shifted(workshop: Workshop) -> None:
    """Of two plans, one with and one without columns that two items compute."""
    serial, parallel = (workshop.trial(CHAIN, split=split) for split in ([], ["layer_0=prepost+network"]))
    assert not any(claim.question.statement.startswith(SHIFTED) for claim in serial.composed())
    shifted = [claim for claim in parallel.composed() if claim.question.statement.startswith(SHIFTED)]
    assert [claim.question.statement for claim in shifted] == [f"{SHIFTED}1", f"{SHIFTED}8"]
    width = sum(layer.size for layer in CHAIN.layers)
    assert [claim.question.cases for claim in shifted] == [VECTORS * width * 15, VECTORS * width * 116]
    assert failing(shifted) == []


def test_a_counter_that_wraps_is_found_in_whole_runs(workshop: Workshop) -> None:
    patches = [
        Patch("network.c", "enum { BLOCK = 64 };", "enum { BLOCK = 64 }; static unsigned short done;"),
        Patch("network.c", LAST_CALL, f"{LAST_CALL} advisory_output[v][0] ^= v == 0 && ++done == 1900;"),
    ]
    [claim] = [claim for claim in workshop.trial(CHAIN, patches).composed() if not claim.holds]
    assert claim.question.statement == REPEATED
    assert claim.counterexample == "layer advisory: execution 1899 changes its output of vector 73"
