"""Bounds of built programs: the counted instructions, and wrong loop bounds that are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.analysis.inspection import program
from harness.applications.wcet.bounds import of_program
from harness.applications.wcet.graph import Functions
from harness.applications.wcet.stack import frame
from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.build.debug_lines import line_of
from harness.core.errors import ToolError
from harness.model.network import Network
from harness.plan import planner
from harness.targets.toolchain import Compiler
from tests.support.objects import COMPILE
from tests.support.programs.arm_instructions import with_compiler
from tests.support.programs.board_program import Patch, build_patched
from tests.support.programs.c_variants import GNU, QEMU
from tests.support.programs.convolutions import random_convolutions
from tests.support.wcet import WRONG_LOOPS, bounded, dense, require_sound

pytestmark = pytest.mark.skipif(QEMU is None, reason="qemu-aarch64 is not on this machine: apt-get install qemu-user")


@pytest.fixture(scope="module", autouse=True)
def _programs_share_what_they_can(kept_objects: None) -> None:
    """To compile takes longer than to run."""


def images(axes: int) -> Network:
    """Two convolutions with padding, strides, dilations and groups, and a MaxPool between them."""
    return random_convolutions(np.random.default_rng(8), axes, "int8", "int8", 2)


@pytest.mark.parametrize(
    ("net", "target", "flags"),
    [
        (dense(), "c:generic", ("-O0",)),
        (dense(), "c:unrolled", ("-O1",)),
        (images(1), "c:generic", ("-O1",)),
        (images(2), "c:inlined", ("-O3", "-mcpu=cortex-a53")),
    ],
    ids=["dense, generic, -O0", "dense, unrolled, -O1", "images, generic, -O1", "images, inlined, -O3"],
)
def test_the_bound_is_the_count(
    net: Network, target: str, flags: tuple[str, ...], host: Profile, tmp_path: Path, objects: Path
) -> None:
    found = bounded(net, with_compiler(host, target, GNU, flags), tmp_path, objects)
    require_sound(found)
    exact = [layer for layer in found.bounds.layers if not layer.decided_by_data]
    assert len(exact) >= len(found.bounds.layers) - 1  # ArgMax, and MaxPool without optimisation, may branch on data
    for layer in exact:
        assert layer.instructions == found.counted[layer.function].most


def test_frames_are_those_that_the_compiler_states(
    host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Compiler, "build", COMPILE)  # object files that are kept come without the compiler's statement
    board = with_compiler(host, "c:generic", GNU, ("-O1",))
    plan = planner.make(dense(), board, block=1)
    built = build_patched(plan, board, tmp_path, flags=("-fstack-usage",))
    lines = [line.split("\t") for path in tmp_path.rglob("*.su") for line in path.read_text().splitlines()]
    named = [(place.rpartition(":")[2], int(size), kind) for place, size, kind in lines]
    of_any_size = {name for name, _, kind in named if kind != "static"}
    stated = {name: size for name, size, _ in named if name not in of_any_size}
    read = program.read(built.path)
    functions = Functions(read)
    compared = [symbol for symbol in read.functions if symbol.name in stated]
    assert {"work", "layer_0_forward", "generic_requantize_uint8"} <= {symbol.name for symbol in compared}
    for symbol in compared:
        function = functions.at(symbol.address)
        assert function is not None
        assert frame(function, functions.processor).size == stated[symbol.name], symbol.name


def test_an_instruction_has_the_line_of_its_source(host: Profile, tmp_path: Path) -> None:
    board = with_compiler(host, "c:generic", GNU, ("-O1",))
    plan = planner.make(dense(), board, block=1)
    generated = codegen.generate(plan)
    built = bundle.build(generated, board, tmp_path)
    path = built.folder / bundle.PROGRAM
    symbol = next(each for each in program.read(path).functions if each.name == "layer_1_forward")
    name, _, line = line_of(generated, board, path, symbol.address).partition(":")
    assert name == "network.c"
    [begin] = [
        number for number, text in enumerate(generated.source.splitlines(), 1) if "void layer_1_forward(" in text
    ]
    assert begin <= int(line) <= begin + 2


@pytest.mark.parametrize(("wrong", "words"), WRONG_LOOPS.values(), ids=WRONG_LOOPS)
def test_a_wrong_loop_bound_is_found(wrong: Patch, words: str, host: Profile, tmp_path: Path, objects: Path) -> None:
    board = with_compiler(host, "c:generic", GNU, ("-O1",))
    plan = planner.make(dense(), board, block=1)
    built = build_patched(plan, board, tmp_path, [wrong], objects=objects)
    with pytest.raises(ToolError) as error:
        of_program(codegen.generate(plan), built.path)
    assert "the loops of the program are not those of the plan" in error.value.message
    assert words in error.value.message
