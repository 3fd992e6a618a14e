"""Launches in their own buffers, and repeated: programs whose stages are right, and which are wrong nevertheless."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from harness.analysis.proof import Claim, ProofStep, composition, launches
from harness.analysis.proof.claims import OPERATIONS, Effort, effort_of
from harness.build import codegen
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.core.installation import ROOT
from harness.model import graph
from harness.model.network import Network
from harness.operators.obligations import Extent
from harness.operators.qgemm import QGemm
from harness.plan.launches import planned_launches
from harness.plan.plan import Plan
from harness.plan.planner import EMULATED_OPERATIONS
from harness.reference import generated
from tests.support import builders
from tests.support.programs.board_program import Patch, parse, references, uniform_vectors
from tests.support.proof.trials import EFFORT, VECTORS, Trial, Workshop

CHAIN = parse(builders.random_network(np.random.default_rng(5), (5, 6, 6, 4), argmax=True, per_column=True))
RESIDUAL = parse(builders.random_network(np.random.default_rng(2), (4, 6, 6, 5), residual=2, zero_points=True))
OFTEN = dataclasses.replace(EFFORT, launches=[1 << 17] * 2)
CALL = "layer_1_finish(acc, layer_1_output[v]);"
ACCUMULATE = "layer_1_accumulate(layer_0_output[v], acc);"
STATE = "enum { BLOCK = 64 };"
STAND_INS = ["emulated-cpu (qemu neoverse-n1)", "host-simulation of CUDA"]


def refuted(claims: list[Claim]) -> list[str]:
    return [claim.counterexample for claim in claims if not claim.holds]


def behind(call: str, code: str, state: str = "") -> list[Patch]:
    """What a program does wrong after a call of its schedule."""
    return [Patch("network.c", call, f"{call} {code}"), Patch("network.c", STATE, f"{STATE} {state}")]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("net", [CHAIN, RESIDUAL], ids=["chain", "residual"])
@pytest.mark.parametrize("split", [[], ["parallel"], ["pipeline"]], ids=["", "parallel", "pipeline"])
def test_a_right_program_holds(workshop: Workshop, net: Network, split: list[str]) -> None:
    trial = workshop.trial(net, split=split)
    claims = trial.launched()
    assert refuted(claims) == []
    assert {claim.question.step for claim in claims} == {ProofStep.EXECUTION}
    assert len(claims) == 2 * len(trial.made.tasks)


def test_the_cases_are_those_that_were_sent(workshop: Workshop) -> None:
    trial = workshop.trial(CHAIN)
    in_buffers, repeated = (claim.question for claim in trial.launched()[:2])
    sent = launches.Trial(trial.made, planned_launches(trial.made)[0], *seeded(trial), EFFORT.of_launch(0))
    found = generated.passes(len(sent.rows), 4, launches.SEED, 2000)
    tables = sum(table.values.size for table in trial.tables())
    assert in_buffers.cases == (len(sent.rows) + sum(size * -(-256 // size) for size in range(1, 65))) * 5
    assert repeated.cases == found.passes * len(sent.rows) * 5 + tables
    assert repeated.method.startswith(f"{found.executions:,} executions in blocks of 1 to 4 vectors pass ")


def seeded(trial: Trial) -> tuple[Array, list[Array]]:
    """The vectors of `Trial.launched`, and all activations for them."""
    vectors = uniform_vectors(trial.network, VECTORS, seed=1)
    return vectors, list(references(trial.network, vectors))


def largest() -> int:
    """Of the accumulators of the first column of layer_1: no activation that the network's inputs give reaches it."""
    layer = CHAIN.layers[2]
    assert isinstance(layer, QGemm)
    return int(layer.accumulator_bounds()[1][0])


WRONG = {
    "extreme sums in the schedule alone": behind(CALL, f"layer_1_output[v][0] ^= acc[0] == {largest()};"),
    "a block of 3 vectors": behind(CALL, "layer_1_output[v][0] ^= vectors == 3;"),
    "a last block of 5": behind(CALL, "layer_1_output[v][5] ^= vectors == 5 && v == 4;"),
    "buffers that are not aligned": behind(
        CALL, f"layer_1_output[v][0] ^= (size_t)layer_1_output[v] % 64 != 0 && acc[0] == {largest()};"
    ),
    "a cache that is keyed by all inputs but the last": [
        Patch("network.c", STATE, f"{STATE} static unsigned char key[5], kept[6]; static int full;"),
        Patch(
            "network.c",
            f"{ACCUMULATE}\n        {CALL}",
            f"{ACCUMULATE} if (full && memcmp(key, layer_0_output[v], 5) == 0) memcpy(layer_1_output[v], kept, 6);"
            f" else {{ {CALL} memcpy(key, layer_0_output[v], 5); memcpy(kept, layer_1_output[v], 6); full = 1; }}",
        ),
    ],
    "a result of the execution before": behind(
        CALL, "if (v == 0 && vectors == 1) layer_1_output[0][0] ^= last == 200; last = layer_0_output[v][0];",
        "static unsigned char last;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("held", ["six(0)", "six(255)", "v == 0 && memcmp(row, last, 6) == 0"])
def test_an_output_that_is_read_before_it_is_written_is_found(workshop: Workshop, held: str) -> None:
    """Wrong where a row holds only zeros or ones, or what the execution before has written there."""
    six = "#define six(n) row[0] == n && row[1] == n && row[2] == n && row[3] == n && row[4] == n && row[5] == n"
    before = f"const unsigned char *row = layer_1_output[v]; const int changed = {held};"
    after = "layer_1_output[v][0] ^= (unsigned char)changed; if (v == 0) memcpy(last, layer_1_output[0], 6);"
    patches = [
        Patch("network.c", CALL, f"{before} {CALL} {after}"),
        Patch("network.c", STATE, f"{STATE} static unsigned char last[6];\n{six}\n"),
    ]
    assert {"layer_1" in text for text in refuted(workshop.trial(CHAIN, patches).launched())} == {True}


def test_every_block_size_up_to_the_capacity_is_tried(workshop: Workshop) -> None:
    """Other sizes than 37 are drawn for a pass."""
    swapped = Patch("network.c", CALL, CALL.replace("[v]", "[vectors == 37u && v < 2u ? 1u - v : v]"))
    [found] = refuted(workshop.trial(CHAIN, [swapped], block=1000).launched())
    assert ", of 37 vectors from vector " in found


NUMBERS = {
    "a counter of 20 bits": "(execution & 0xfffffu) != execution",
    "float": "(uint64_t)(float)execution != execution",
    "int32": "(int32_t)execution < 0",
    "double": "(uint64_t)(double)execution != execution",
}


@pytest.mark.parametrize("condition", NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_executions_that_come_late_are_tried(workshop: Workshop, condition: str) -> None:
    """A late execution takes the copy of a buffer of another execution, in launches and in whole runs."""
    unused = "static void layer_1_forward(size_t vectors, uint64_t execution __attribute__((unused)))"
    patches = [
        Patch("network.c", unused, unused.replace(" __attribute__((unused))", "")),
        Patch("network.c", CALL, f"{CALL} layer_1_output[v][0] ^= {condition};"),
    ]
    trial = workshop.trial(CHAIN, patches)
    [found] = refuted(trial.launched())
    assert int(found.removeprefix("execution ").split(",")[0]) >= 1 << 20
    [found] = [claim.counterexample for claim in trial.composed() if not claim.holds]
    assert re.match("layer layer_1: execution [0-9]{7,} changes its output", found)


def test_the_copies_of_a_pipeline_are_those_of_late_executions(workshop: Workshop) -> None:
    old, new = "layer_2_copies[execution % 2u]", "layer_2_copies[(size_t)(float)execution % 2u]"
    trial = workshop.trial(CHAIN, [Patch("network.c", old, new)], split=["pipeline"])
    assert refuted(trial.launched())


@pytest.mark.parametrize("patches", WRONG.values(), ids=WRONG)
def test_what_no_stage_shows_is_found(workshop: Workshop, patches: list[Patch]) -> None:
    trial = workshop.trial(CHAIN, patches)
    assert trial.refuted() == {}
    found = refuted(trial.launched())
    assert found
    assert all("layer_1" in counterexample for counterexample in found)


def test_a_counter_that_wraps_is_found_after_65536_executions(workshop: Workshop) -> None:
    wraps = "if (v == 0 && ++executions_done == 0) wrapped = 1; layer_1_output[v][0] ^= wrapped;"
    state = "static unsigned short executions_done; static unsigned char wrapped;"
    trial = workshop.trial(CHAIN, behind(CALL, wraps, state))
    assert refuted(trial.launched()) == []
    assert refuted(trial.composed()) == []
    [found] = refuted(trial.launched(OFTEN))
    assert found.startswith("execution 65535, of ")
    assert found.endswith("gives other outputs than before in layer_1")


def test_a_table_that_changes_at_last_is_found_in_the_same_process(workshop: Workshop) -> None:
    """A weight that meets code 0 alone: no output tells."""
    change = "if (v == 0 && ++done == 1500) *(signed char *)layer_1_weights ^= 1;"
    writable = Patch("network.c", "static const int8_t layer_1_weights", "static int8_t layer_1_weights")
    state = "static size_t done; static signed char layer_1_weights[6][6];"
    trial = workshop.trial(CHAIN, [*behind("quantize_compute(input[v], quantize_output[v]);", change, state), writable])
    assert trial.refuted() == {}
    found = refuted(trial.launched())
    assert [counterexample.split(" holds")[0] for counterexample in found] == ["table layer_1_weights[0][0]"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("((float *)input)[0] = 0;", "changes its input x"),
        ("layer_2_output[0][0] = 1;", "written where it has nothing to write, in the buffer of layer_2"),
        (
            "quantize_output[vectors % BLOCK][0] = 9;",
            "written where it has nothing to write, in the buffer of quantize",
        ),
    ],
)
def test_a_write_beside_the_outputs_is_found(workshop: Workshop, code: str, message: str) -> None:
    """The writes come after those that read, so that no activation differs."""
    declared = "static uint8_t layer_2_output[BLOCK][4] __attribute__((aligned(64)));"
    trial = workshop.trial(CHAIN, behind("quantize_compute(input[v], quantize_output[v]);", code, declared))
    assert trial.refuted() == {}
    found = refuted(trial.launched())
    assert found
    assert all(message in counterexample or "finds that one before" in counterexample for counterexample in found)


def test_a_program_that_executes_less_often_is_no_answer(workshop: Workshop) -> None:
    trial = workshop.trial(CHAIN, [Patch("kernels/program/probe_launch.c", "= trial->done;", "= 1;")])
    with pytest.raises(BoardError, match="the program reports 1 executions of quantize, not "):
        trial.launched()


def test_the_effort_follows_from_where_the_items_ran() -> None:
    assert effort_of(["hardware", "hardware"], CHAIN) == Effort([1 << 18] * 2, 70_000, 4, 1 << 20, 8192)
    emulated = effort_of(STAND_INS, CHAIN)
    limits = [OPERATIONS // CHAIN.operations] * 2
    assert emulated == Effort([1 << 17, 1 << 12], 20_000, 64, 1 << 16, 4096, window=16, limits=limits)
    assert emulated.limited == ()
    assert emulated.largest_size(1, 1000, 9) == 1000
    assert emulated.extent(1, all_floats=True) == Extent(all_floats=True)
    passes = generated.passes(emulated.vectors, emulated.block, composition.SEED, emulated.network).passes
    assert passes * emulated.vectors >= 1 << 18


def test_a_stand_in_of_a_large_network_is_asked_less_and_hardware_beside_it_is_not() -> None:
    network = graph.load(ROOT / "models" / "resnet8_int8.onnx")
    vectors = OPERATIONS // network.operations
    assert 64 < vectors < 2000
    found = effort_of(["hardware", STAND_INS[1]], network)
    assert found == Effort(
        [1 << 18, vectors // 2],
        vectors // 2,
        2,
        1 << 16,
        vectors // 4,
        vectors=vectors // 4,
        window=16,
        limits=[0, vectors],
    )
    assert found.limited == (1,)
    assert found.extent(0, all_floats=False) == Extent(all_floats=False)
    assert found.extent(1, all_floats=False) == Extent(False, vectors, every_position=False)
    assert (found.of_launch(0), found.of_launch(1)) == (4096, 64)
    assert (found.largest_size(0, 1000, 9), found.largest_size(1, 1000, 9), found.largest_size(1, 9, 9)) == (
        1000,
        16,
        9,
    )
    hardware = effort_of(["hardware"], network)
    assert hardware == Effort([1 << 18], 70_000, 4, 1 << 20, 8192)
    assert (hardware.largest_size(0, 1000, 1 << 13), hardware.largest_size(0, 1000, 1 << 30)) == (128, 16)
    assert (hardware.executions(0, 1 << 10), hardware.executions(0, 1 << 13)) == (1 << 18, 1 << 17)
    assert found.vectors > 2 * (EMULATED_OPERATIONS // network.operations), "a whole run has two blocks"


def test_repeated_launches_of_a_limited_item_have_small_blocks(workshop: Workshop) -> None:
    trial = workshop.trial(CHAIN, split=["pipeline"])
    program = codegen.generate(trial.made)
    effort = dataclasses.replace(EFFORT, limits=[1000] + [0] * (len(trial.made.items) - 1))
    asked = launches.questions(program, None, *seeded(trial), effort)
    repeated = [question.method for question in asked if "every execution in one process" in question.statement]
    limited = [launch.item == 0 for launch in program.launches]
    assert set(limited) == {False, True}
    assert [" blocks of 1 to 2 vectors" in method for method in repeated] == limited


def test_every_kind_of_input_is_tried(workshop: Workshop) -> None:
    made: Plan = workshop.trial(CHAIN).made
    vectors, references = seeded(workshop.trial(CHAIN))
    first_two = planned_launches(made)[:2]
    first = launches.Trial(made, first_two[0], vectors, references, EFFORT.of_launch(0)).given[CHAIN.vector.name]
    assert np.isnan(first).any(axis=1).sum() > 500
    assert np.isinf(first).any()
    codes = launches.Trial(made, first_two[1], vectors, references, EFFORT.of_launch(0)).given[
        CHAIN.layers[0].output.name
    ]
    assert {tuple(row) for row in codes} >= {(code,) * 5 for code in range(256)}
    assert (np.unique(codes[100:1124][1:] != codes[100:1124][:-1], axis=0).sum(axis=1) <= 1).all()
