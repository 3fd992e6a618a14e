"""Each forward passes its rows once and in order, for every number of vectors of a block."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.profile import Profile
from harness.plan import planner
from tests.integration.analysis.proof.test_structure import (
    CHAIN,
    TOOLCHAINS,
    asked,
    board_with,
    build,
    counterexamples,
    in_campaign,
)
from tests.support.programs.board_program import Patch

BEGIN = "static void layer_0_forward(size_t vectors, uint64_t execution __attribute__((unused)))\n{\n"
SOURCE, OUTPUT = "layer_0_accumulate(quantize_output[v], acc);", "layer_0_finish(acc, layer_0_output[v]);"


def first(statement: str) -> Patch:
    """A statement at the begin of the forward."""
    return Patch("network.c", BEGIN, f"{BEGIN}    {statement}\n")


def row(call: str, index: str) -> Patch:
    """Another row in the place of `v`."""
    return Patch("network.c", call, call.replace("[v]", f"[{index}]"))


WRONG = {
    "the last row of 7 is left out": ("layer_0_forward", [first("if (vectors == 7) vectors = 6;")]),
    "a row more than 4": ("layer_0_forward", [first("vectors += vectors == 4;")]),
    "the last row is left out where bits of their number are 1001": (
        "layer_0_forward",
        [first("vectors -= (vectors & 15) == 9;")],
    ),
    "the last row is left out where a product is 121": (
        "layer_0_forward",
        [first("if (vectors * vectors == 121) vectors = 10;")],
    ),
    "rows of 6 are exchanged in pairs": ("layer_0_forward", [row(SOURCE, "v ^ (size_t)(vectors == 6)")]),
    "rows of a remainder are the ones before": (
        "layer_0_forward",
        [row(SOURCE, "vectors % 5 == 3 && v > 1 ? v - 1 : v")],
    ),
    "a row of a whole block is written in the place of another": (
        "layer_0_forward",
        [row(OUTPUT, "vectors == BLOCK && v == 12 ? 11 : v")],
    ),
    "each row from the 10th on is computed again": (
        "layer_0_forward",
        [
            Patch(
                "network.c",
                OUTPUT,
                f"if (v > 9)\n            layer_0_accumulate(quantize_output[v], acc);\n        {OUTPUT}",
            )
        ],
    ),
    "rows in reverse": ("layer_0_forward", [row(SOURCE, "vectors - 1 - v"), row(OUTPUT, "vectors - 1 - v")]),
}


@pytest.mark.parametrize(
    ("name", "toolchain"),
    [
        (name, on) if number < 3 and on == ("gcc", "gcc for Arm", "gcc -O0")[number % 3] else in_campaign(name, on)
        for number, name in enumerate(WRONG)
        for on in ("gcc", "gcc -O0", "clang", "gcc for Arm", "clang for Arm")
    ],
)
def test_wrong_rows_are_found(host: Profile, name: str, toolchain: str, tmp_path: Path, objects: Path) -> None:
    said, patches = WRONG[name]
    board = board_with(host, toolchain)
    plan = planner.make(CHAIN, board, block=16)
    claims = asked(plan, build(plan, board, tmp_path / "bundle", objects, patches))
    of_rows = (claim for claim in claims if "passes each of their rows" in claim.question.statement)
    assert [said in claim.counterexample for claim in of_rows if not claim.holds] == [True]


def test_a_device_that_gets_another_number_of_vectors_is_found(host: Profile, tmp_path: Path, objects: Path) -> None:
    plan = planner.make(CHAIN, host, ("c", "tiovx:c7x"), block=16)
    patch = Patch("network.c", "_run(&layer_0_launch, vectors);", "_run(&layer_0_launch, vectors == 7 ? 6 : vectors);")
    said = counterexamples(plan, build(plan, host, tmp_path / "bundle", objects, [patch]))
    assert any("calls its driver in different ways for different numbers of vectors" in each for each in said)


@pytest.mark.parametrize(
    "toolchain", [name if name in {"gcc", "gcc for Arm"} else in_campaign(name) for name in TOOLCHAINS]
)
def test_the_rows_of_a_large_block_follow_from_the_first_ones(
    host: Profile, toolchain: str, tmp_path: Path, objects: Path
) -> None:
    """An interpretation of every row would take hours."""
    board = board_with(host, toolchain)
    plan = planner.make(CHAIN, board, block=1_000_000, split=["layer_0=prepost+network"])
    assert counterexamples(plan, build(plan, board, tmp_path / "bundle", objects)) == []
