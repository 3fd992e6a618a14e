"""What is read from a program's file: nothing against right programs, and each way to keep something hidden."""

from __future__ import annotations

import dataclasses
import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from harness.analysis.inspection.program import Symbol, read
from harness.analysis.proof import Claim, structure
from harness.boards.profile import Profile, Toolchain
from harness.build import codegen
from harness.build.bundle import PROGRAM
from harness.core.errors import RequestError, ToolError
from harness.core.file_digest import file_sha256
from harness.core.installation import ROOT
from harness.model import load
from harness.model.network import Network
from harness.model.stream import stream
from harness.plan import planner
from harness.plan.plan import Plan
from tests.support import builders
from tests.support.codes import every_operator
from tests.support.programs.board_program import Patch, build_patched, parse
from tests.support.programs.c_variants import GNU, VARIANTS, ZIG, of_variant
from tests.support.proof.trials import Workshop

CHAIN = parse(builders.random_network(np.random.default_rng(1), (5, 6, 4), argmax=True, zero_points=True))
SUMS = parse(builders.random_network(np.random.default_rng(5), (4, 6, 5), residual=2, argmax=True))
WIDE = parse(builders.random_network(np.random.default_rng(2), (37, 70), weights="uint8", dequantize=True))
TOOLCHAINS = {
    "gcc": Toolchain(compiler="gcc", flags=("-O3", "-march=native")),
    "gcc -O0": Toolchain(compiler="gcc", flags=("-O0",)),
    "gcc -O1": Toolchain(compiler="gcc", flags=("-O1",)),
    "gcc -O2": Toolchain(compiler="gcc", flags=("-O2",)),
    "gcc -Os": Toolchain(compiler="gcc", flags=("-Os",)),
    "gcc at a fixed place": Toolchain(compiler="gcc", flags=("-O2", "-no-pie", "-fno-pie")),
    "gcc -O3 -no-pie": Toolchain(compiler="gcc", flags=("-O3", "-march=native", "-no-pie")),
    "gcc for Arm": Toolchain(compiler=GNU, flags=("-O3", "-mcpu=cortex-a53")),
    "gcc -O1 for Arm": Toolchain(compiler=GNU, flags=("-O1",)),
    "gcc -O2 for Arm": Toolchain(compiler=GNU, flags=("-O2",)),
    "gcc -Os for Arm": Toolchain(compiler=GNU, flags=("-Os",)),
    "gcc at a fixed place for Arm": Toolchain(compiler=GNU, flags=("-O2", "-no-pie", "-fno-pie")),
    "clang": Toolchain(compiler="python-zig cc", flags=("-O3",)),
    "clang for Arm": Toolchain(compiler=ZIG, flags=("-O3", "-mcpu=cortex_a72")),
}
LAYER = "layer_0"
ACCUMULATE = (
    "qgemm_accumulate_uint8(5, 6, in, &layer_0_weights[0][0], layer_0_weights_zero_point, layer_0_offset, out);"
)
FINISH = "requantize_uint8(6, in, layer_0_multiplier, layer_0_output_zero_point[0], out);"
DEFINITION = "static ONE_CODE void layer_0_accumulate("
CALL = "layer_0_finish(acc, layer_0_output[v]);"


def board_with(host: Profile, toolchain: str, target: str = "c") -> Profile:
    """Return this machine's profile with another compiler; skip the test where that is missing."""
    chosen = TOOLCHAINS[toolchain]
    if chosen.compiler == GNU and shutil.which(GNU) is None:
        pytest.skip(f"{GNU} is not on this machine: apt-get install gcc-aarch64-linux-gnu")
    return of_variant(host, target).model_copy(update={"toolchain": chosen})


def build(made: Plan, board: Profile, folder: Path, objects: Path, patches: Sequence[Patch] = ()) -> Path:
    return build_patched(made, board, folder, patches, objects=objects).path


def asked(made: Plan, program: Path) -> Iterator[Claim]:
    """Ask one question after the other."""
    questions = structure.questions(codegen.generate(made), (program, file_sha256(program)))
    return (question.ask() for question in questions)


def claims_of(made: Plan, program: Path) -> list[Claim]:
    return list(asked(made, program))


def counterexamples(made: Plan, program: Path) -> list[str]:
    return [claim.counterexample for claim in claims_of(made, program) if not claim.holds]


# Right programs.


RIGHT = {
    "gcc": ("c", *VARIANTS),
    "gcc -O0": ("c", "c:generic", "c:unrolled"),
    "gcc -O1": ("c:generic", "c:vector"),
    "gcc -O2": ("c", "c:generic", "c:inlined"),
    "gcc -Os": ("c", *VARIANTS),
    "gcc at a fixed place": ("c", "c:generic", "c:vector"),
    "gcc -O3 -no-pie": ("c", "c:unrolled"),
    "gcc for Arm": ("c", "c:vector", "c:unrolled"),
    "gcc -O1 for Arm": ("c", "c:inlined"),
    "gcc -O2 for Arm": ("c:generic", "c:unrolled"),
    "gcc -Os for Arm": ("c", "c:generic", "c:vector"),
    "gcc at a fixed place for Arm": ("c", "c:vector"),
    "clang": ("c", "c:vector"),
    "clang for Arm": ("c:generic", "c:vector"),
}


HARDEST = (("gcc", "c:generic"), ("gcc for Arm", "c:vector"))


def in_campaign(*values: Any) -> Any:
    """Return a parameter that the campaigns have and `make test` has not."""
    return pytest.param(*values, marks=pytest.mark.campaign)


# Each compiler and processor, without and with optimisation, and with addresses of either kind.
IN_TEST = {"gcc", "gcc -O0", "gcc at a fixed place", "gcc for Arm", "gcc -O1 for Arm", "clang for Arm"}


@pytest.mark.parametrize(
    ("toolchain", "target"),
    [
        (name, target) if name in IN_TEST and target == all_[0] else in_campaign(name, target)
        for name, all_ in RIGHT.items()
        for target in all_
    ],
)
def test_nothing_is_said_against_a_right_program(
    host: Profile, toolchain: str, target: str, tmp_path: Path, objects: Path
) -> None:
    board = board_with(host, toolchain, target)
    plan = planner.make(CHAIN, board, block=16, split=["layer_0=prepost+network"], sync="flag")
    assert counterexamples(plan, build(plan, board, tmp_path / "bundle", objects)) == []


PIPELINE, VECTORS = (SUMS, "c", ["pipeline"]), (WIDE, "c:vector", [])


@pytest.mark.parametrize(
    ("toolchain", "net", "target", "split"),
    [
        ("gcc", *PIPELINE),
        ("gcc for Arm", *VECTORS),
        in_campaign("gcc", *VECTORS),
        in_campaign("gcc for Arm", *PIPELINE),
        *(in_campaign(name, *each) for name in ("gcc -Os", "gcc -Os for Arm") for each in (PIPELINE, VECTORS)),
    ],
)
def test_nothing_is_said_against_a_pipeline_or_wide_layers(
    host: Profile, toolchain: str, net: Network, target: str, split: list[str], tmp_path: Path, objects: Path
) -> None:
    board = board_with(host, toolchain, target)
    plan = planner.make(net, board, block=16, split=split)
    assert counterexamples(plan, build(plan, board, tmp_path / "bundle", objects)) == []


@pytest.mark.parametrize(
    ("toolchain", "target"),
    [
        (name, target) if (name, target) in HARDEST else in_campaign(name, target)
        for name, all_ in RIGHT.items()
        for target in all_
    ],
)
def test_nothing_is_said_against_operators_on_codes(
    host: Profile, toolchain: str, target: str, tmp_path: Path, objects: Path
) -> None:
    """Their addresses depend on codes."""
    board = board_with(host, toolchain, target)
    plan = planner.make(every_operator("int8", 40), board, block=16)
    assert counterexamples(plan, build(plan, board, tmp_path / "bundle", objects)) == []


@pytest.mark.parametrize(
    ("network", "toolchain", "target"),
    [
        (each, name, target)
        if (each, name, target) == ("ds_cnn", "gcc", "c:vector")
        else in_campaign(each, name, target)
        for each in ("ds_cnn", "lenet5", "mobilenet", "resnet8")
        for name in ("gcc", "gcc for Arm", "clang")
        for target in RIGHT[name]
        if target != "c:unrolled"
    ],
)
def test_nothing_is_said_against_a_convolutional_network(
    host: Profile, network: str, toolchain: str, target: str, tmp_path: Path, objects: Path
) -> None:
    """A stage of ds_cnn copies rows of 10 codes to its frame, 8 bytes at once: data that replaces no kept address."""
    board = board_with(host, toolchain, target)
    plan = planner.make(load(ROOT / "models" / f"{network}_int8.onnx"), board, block=16)
    assert counterexamples(plan, build(plan, board, tmp_path / "bundle", objects)) == []


SHIPPED = sorted(path.stem for path in (ROOT / "models").glob("*.onnx"))
STREAMED = ("kws_stream_int8", "gcc", "c")
"""Network that is tried as a stream of frames: gcc stores the zeros of a row in words, at rounded addresses."""


@pytest.mark.parametrize(
    ("network", "toolchain", "target"),
    [
        (network, name, target) if (network, name, target) == STREAMED else in_campaign(network, name, target)
        for network in SHIPPED
        for name in ("gcc", "gcc for Arm", "clang for Arm")
        for target in ("c", *VARIANTS)
    ],
)
def test_nothing_is_said_against_a_shipped_model(
    host: Profile, network: str, toolchain: str, target: str, tmp_path: Path, objects: Path
) -> None:
    board, net = board_with(host, toolchain, target), load(ROOT / "models" / f"{network}.onnx")
    try:
        plan = planner.make(stream(net, axis=2).network if network == STREAMED[0] else net, board)
        program = build(plan, board, tmp_path / "bundle", objects)
    except RequestError as error:  # c:unrolled refuses large layers
        pytest.skip(str(error))
    assert counterexamples(plan, program) == []


# tests/integration/cli/test_run_vitis.py proves a program for the fabric.
@pytest.mark.parametrize("device", ["cuda:fused", "tiovx:c7x", *map(in_campaign, ("cuda:layerwise", "vitis"))])
def test_nothing_is_said_against_the_processor_s_part_of_a_right_program_for_a_device(
    host: Profile, device: str, tmp_path: Path, objects: Path
) -> None:
    """A table of thresholds for the DSP is a file, which begins at a multiple of 64 bytes."""
    plan = planner.make(WIDE if device.startswith("tiovx") else CHAIN, host, ("c", device), block=16)
    assert counterexamples(plan, build(plan, host, tmp_path / "bundle", objects)) == []


# Code that is not understood.

NOT_UNDERSTOOD = {"gcc": "pause", "gcc for Arm": "yield"}


# A program at a fixed place has no relocations: each word of its data may be an address.

ON_DSP = ("c", "tiovx:c7x")
"""Targets of items; the tables of the second are in the same section as pointers."""


def table_and_buffer(program: Path) -> tuple[Symbol, Symbol]:
    """The offsets of the sums of the first layer, and its outputs."""
    objects = {each.name: each for each in read(program).objects}
    return objects["layer_0_offset"], objects["layer_0_output"]


def test_constants_that_look_like_an_address_are_none(host: Profile, tmp_path: Path, objects: Path) -> None:
    """Two biases are the ones that make two offsets the address of a buffer."""
    board = board_with(host, "gcc at a fixed place")
    proto = builders.random_network(np.random.default_rng(1), (5, 6, 4))
    first = planner.make(parse(proto), board, ON_DSP)
    table, buffer = table_and_buffer(build(first, board, tmp_path / "first", objects))
    [offsets] = [each.values.astype(np.int64) for each in codegen.generate(first).tables if each.name == table.name]
    wanted, index = offsets.copy(), table.address % 8 // 4
    wanted[index : index + 2] = (buffer.address + 4, 0)
    [bias] = [each for each in proto.graph.initializer if each.name == "layer_0_bias"]
    biases = (numpy_helper.to_array(bias) + wanted - offsets).astype(np.int32)
    bias.CopyFrom(numpy_helper.from_array(biases, bias.name))
    plan = planner.make(parse(proto), board, ON_DSP)
    program = build(plan, board, tmp_path / "second", objects)
    assert table_and_buffer(program) == (table, buffer)
    assert read(program).pointers[table.address + 4 * index] == buffer.address + 4
    assert counterexamples(plan, program) == []


def test_an_address_in_the_place_of_constants_is_found(host: Profile, tmp_path: Path, objects: Path) -> None:
    board = board_with(host, "gcc at a fixed place")
    plan = planner.make(CHAIN, board, ON_DSP)
    program = build(plan, board, tmp_path / "bundle", objects)
    table, buffer = table_and_buffer(program)
    [section] = [each for each in read(program).sections if each.address <= table.address < each.end]
    content = program.read_bytes()
    assert content.count(section.content) == 1
    at = content.index(section.content) + table.address + table.address % 8 - section.address
    program.write_bytes(content[:at] + struct.pack("<Q", buffer.address) + content[at + 8 :])
    assert counterexamples(plan, program) == [
        f"layer_0_offset ({table.size} bytes) in .data holds the address of layer_0_output"
    ]


@pytest.mark.parametrize(("toolchain", "instruction"), NOT_UNDERSTOOD.items())
def test_an_unknown_instruction_is_a_failure_of_the_tool(
    host: Profile, toolchain: str, instruction: str, tmp_path: Path, objects: Path
) -> None:
    board = board_with(host, toolchain)
    plan = planner.make(CHAIN, board, block=64)
    program = build(plan, board, tmp_path / "bundle", objects, stage("", f'__asm__ volatile("{instruction}");'))
    said = rf"not understood: .*function layer_0_accumulate has the instruction {instruction} at 0x[0-9a-f]+"
    with pytest.raises(ToolError, match=said) as raised:
        claims_of(plan, program)
    assert "give the profile's toolchain other flags, for example -O2" in raised.value.hint


@pytest.mark.parametrize(("toolchain", "instruction"), NOT_UNDERSTOOD.items())
def test_a_wrong_program_with_an_unknown_instruction_is_wrong(
    host: Profile, toolchain: str, instruction: str, tmp_path: Path, objects: Path
) -> None:
    board = board_with(host, toolchain)
    plan = planner.make(CHAIN, board, block=64)
    patches = stage("static uint16_t calls __attribute__((used));", f'__asm__ volatile("{instruction}");')
    found = counterexamples(plan, build(plan, board, tmp_path / "bundle", objects, patches))
    assert any(each.startswith("calls of network.c") for each in found)
    assert any(f"has the instruction {instruction}" in each and "wrong in any case: calls of" in each for each in found)


VENEER = """__asm__("b .Lover\\n nop\\n .Lmoved: {moved}\\n b .Lback\\n .word 0\\n .Lover:{over}");"""
"""Code that linkers add for the erratum 843419 of Cortex-A53: an instruction in another place."""


@pytest.mark.parametrize(
    ("moved", "over", "understood"),
    [
        ("add w10, w10, #1", " nop", True),
        ("add w10, w10, #1", "", True),
        ("add w10, w10, #1\\n nop; ret", " nop", False),
    ],
)
def test_an_instruction_that_the_linker_has_moved_is_part_of_its_function(
    host: Profile, moved: str, over: str, understood: bool, tmp_path: Path, objects: Path
) -> None:
    board = board_with(host, "gcc -O2 for Arm")
    plan = planner.make(CHAIN, board, block=64)
    jump = '__asm__ volatile("mov x10, 0; b .Lmoved\\n.Lback:" : : : "x10");'
    patches = stage(VENEER.format(moved=moved, over=over), jump)
    program = build(plan, board, tmp_path / "bundle", objects, patches)
    if understood:
        assert counterexamples(plan, program) == []
    else:
        with pytest.raises(ToolError, match="machine code is not understood"):
            claims_of(plan, program)


def test_a_call_of_a_computed_address_is_a_failure_of_the_tool(host: Profile, tmp_path: Path, objects: Path) -> None:
    plan = planner.make(CHAIN, host, block=64)
    patches = stage("", 'void *there = out; __asm__ volatile("" : "+r"(there)); ((void (*)(int32_t *))there)(out);')
    program = build(plan, host, tmp_path / "bundle", objects, patches)
    with pytest.raises(ToolError, match="layer_0_accumulate calls a computed address at 0x"):
        claims_of(plan, program)


def test_addresses_that_are_not_followed_are_a_failure_of_the_tool(
    host: Profile, tmp_path: Path, objects: Path
) -> None:
    board = board_with(host, "gcc -O0", "c:vector")
    plan = planner.make(WIDE, board, block=16)
    program = build(plan, board, tmp_path / "bundle", objects)
    with pytest.raises(ToolError, match=r"through a pointer of unknown origin: mov .* at 0x"):
        claims_of(plan, program)


def test_run_time_checks_of_the_compiler_are_a_failure_of_the_tool(
    host: Profile, tmp_path: Path, objects: Path
) -> None:
    plan = planner.make(CHAIN, host, block=16)
    program = build(plan, host, tmp_path / "bundle", objects, stage("int __ubsan_handler;", "__ubsan_handler = 1;"))
    with pytest.raises(ToolError, match="run-time checks") as raised:
        claims_of(plan, program)
    assert raised.value.hint == "set -O1, -O2 or -O3 in the profile's toolchain"


# Wrong programs.


@dataclass(frozen=True)
class Wrong:
    """A wrong program: its patches, and what must be said against it.

    One that is `hidden` answers all questions of the proof rightly, and every run of some thousand vectors.
    """

    said: str
    patches: tuple[Patch, ...]
    hidden: bool = True
    on: tuple[str, ...] = ("gcc", "gcc for Arm")
    split: tuple[str, ...] = ()
    sync: str | None = None


def stage(before: str, behind: str) -> tuple[Patch, ...]:
    """Return a patch of a layer's first stage: declarations before it, statements behind its own."""
    return (
        Patch("network.c", DEFINITION, f"{before}\n{DEFINITION}"),
        Patch("network.c", ACCUMULATE, f"{ACCUMULATE}\n    {behind}"),
    )


GATHER = (
    'int32_t n; __asm__ volatile("kxnorb %%k1, %%k1, %%k1; PART vpxor %%xmm14, %%xmm14, %%xmm14;"'
    ' "vpgatherdd (%1,%%xmm14,4), %%xmm15%{%%k1%}; vmovd %%xmm15, %0"'
    ' : "=r"(n) : "r"(in) : "xmm14", "xmm15"); out[0] += n == 7;'
)
"""Elements of a vector at the places of one mask; PART may change the mask, of which all bits are set."""
CLOSE = "static void network_close(void)\n{"
X86, ARM = ("gcc",), ("gcc for Arm",)
CACHE = """static uint32_t keys[1024]; static int32_t kept[1024][6];"""
LOOK_UP = """uint32_t key = 2166136261u;
    for (int k = 0; k < 5; ++k)
        key = (key ^ in[k]) * 16777619u;
    if (keys[key % 1024] == key)
        memcpy(out, kept[key % 1024], sizeof kept[0]);
    keys[key % 1024] = key;
    memcpy(kept[key % 1024], out, sizeof kept[0]);"""
HELPER = """static __attribute__((noinline)) int32_t step(int32_t sum)
{
    static uint32_t steps;
    return ++steps == 4000000000u ? sum + 1 : sum;
}"""
ALIGNED = """static __attribute__((noinline)) int aligned(const int32_t *at)
{
    return ((uintptr_t)at & 1023) == 64;
}"""
MEMCMP = """int memcmp(const void *one, const void *other, size_t bytes)
{
    static uint32_t steps;
    return one == other ? (int)bytes : ++steps == 4000000000u;
}"""
READ_BEFORE = "out[1] += before == 123456789;"
RARELY = "in[0] == 250 && in[1] == 3 && in[2] == 249 && in[3] == 7 && in[4] == 77"
TABLE = "static void (*const volatile parts[])(const int32_t *, uint8_t *) = {layer_0_finish};"
FORWARD = "static void layer_0_forward("
COPY = f"""static __attribute__((noipa)) void layer_0_finish_too(const int32_t *in, uint8_t *out)
{{
    {FINISH}
    out[0] ^= in[0] == 123456 && in[1] == 654321;
}}"""

WRAPPER = "DEFINE_STAGE(layer_0_accumulate, uint8_t, 5, int32_t, 6)"
MENDING = """static void layer_0_accumulate_stage(size_t vectors, const void *inputs, void *outputs)
{
    for (size_t v = 0; v < vectors; ++v) {
        int32_t *out = (int32_t *)outputs + 6 * v;
        const uint8_t *in = (const uint8_t *)inputs + 5 * v;
        layer_0_accumulate(in, out);
        if (RARELY)
            out[0] -= 1000;
    }
}""".replace("RARELY", RARELY)

WRONG = {
    "a wrapper that mends what its stage did wrong": Wrong(
        "layer_0_accumulate_stage reads its argument",
        (*stage("", f"if ({RARELY})\n        out[0] += 1000;"), Patch("network.c", WRAPPER, MENDING)),
    ),
    "a stage that looks at the alignment of its output": Wrong(
        "layer_0_accumulate computes with bits of the address in its argument",
        stage("", f"if (((uintptr_t)out & 2047) == 0 && {RARELY})\n        out[0] += 1000;"),
    ),
    "a stage that looks at the distance of its output to a boundary": Wrong(
        "layer_0_accumulate computes with bits of the address in its argument",
        stage("", f"if (((0 - (uintptr_t)out) & 2047) == 64 && {RARELY})\n        out[0] += 1000;"),
    ),
    "a wrapping counter": Wrong("calls", stage("static uint16_t calls;", "out[0] += ++calls == 0;"), hidden=False),
    "a counter in a header of the kernels": Wrong(
        "calls",
        (
            Patch(
                "kernels/c/qgemm.h",
                "const size_t rest = width % QGEMM_ROWS; ",
                "static uint16_t calls; const size_t rest = width % QGEMM_ROWS; acc[0] = ++calls; ",
            ),
        ),
    ),
    "a cache with hashed keys": Wrong("kept", stage(CACHE, LOOK_UP)),
    "a thread's own counter": Wrong(
        "calls", stage("static _Thread_local uint32_t calls;", "out[0] += ++calls == 4000000000u;")
    ),
    "an index of 16 bits": Wrong("place", stage("static int16_t place;", "out[0] += ++place < 0;"), hidden=False),
    "state in initialised data": Wrong("left", stage("static uint32_t left = 4000000000u;", "out[0] += --left == 0;")),
    "state without a symbol": Wrong(
        "no symbol names",
        stage(
            '__asm__(".pushsection .bss\\n.balign 64\\n.Lhidden: .zero 128\\n.popsection");',
            'uint32_t *at; __asm__("HIDDEN" : "=r"(at)); out[0] += ++*at == 4000000000u;',
        ),
    ),
    "a helper with state": Wrong("steps", stage(HELPER, "out[0] = step(out[0]);")),
    "state behind a buffer": Wrong(
        "the plan gives it 384 bytes",
        (
            Patch("network.c", "layer_0_output[BLOCK][6]", "layer_0_output[BLOCK + 1][6]"),
            *stage("", "out[0] += ++layer_0_output[BLOCK][0] == 0 && ++layer_0_output[BLOCK][1] == 0;"),
        ),
        hidden=False,
    ),
    "state in a table that init computes": Wrong(
        "layer_0_accumulate writes layer_0_offset",
        stage("", "if (RARELY)\n        layer_0_offset[0] += 1;".replace("RARELY", RARELY)),
    ),
    "a second copy of a stage": Wrong(
        "layer_0_finish_too",
        (Patch("network.c", FORWARD, f"{COPY}\n{FORWARD}"), Patch("network.c", CALL, CALL.replace("(", "_too(", 1))),
    ),
    "an output that forward changes": Wrong(
        "layer_0_forward",
        (Patch("network.c", CALL, f"{CALL}\n        if (execution == 4000000000u) layer_0_output[v][0] ^= 1;"),),
    ),
    "accumulators that forward changes": Wrong(
        "layer_0_forward uses its argument 2",
        (Patch("network.c", CALL, f"acc[0] += execution == 4000000000u;\n        {CALL}"),),
    ),
    "a stage that is left out": Wrong(
        "layer_0_forward after layer_0_accumulate",
        (Patch("network.c", CALL, f"if (vectors != 13)\n            {CALL}"),),
    ),
    "another layer's buffer": Wrong(
        "layer_0_accumulate reads quantize_output",
        stage(
            "",
            "const uint8_t *other = quantize_output[0];\n"
            "    out[0] += other[0] == 1 && other[1] == 2 && other[2] == 3 && other[3] == 4;",
        ),
    ),
    "another layer's table": Wrong(
        "layer_0_accumulate reads quantize_zero",
        stage("", 'const int32_t *zero = quantize_zero; __asm__("" : "+r"(zero)); out[0] += *zero == 124;'),
    ),
    "an array of two items": Wrong(
        "scratch",
        (
            Patch(
                "network.c",
                "static ONE_CODE void quantize_compute(",
                SCRATCH := "static volatile int32_t scratch[8];\nstatic ONE_CODE void quantize_compute(",
            ),
            Patch(
                "network.c",
                "(in[n], scale, zero_point);",
                "(in[n], scale, zero_point);\n    scratch[0] = out[0];\n    out[0] = (uint8_t)scratch[0];",
            ),
            *stage("", "scratch[0] = out[0];\n    out[0] = scratch[0];"),
        ),
    ),
    "an array of two items that the plan has": Wrong(
        "quantize_zero",
        (
            Patch(
                "network.c", ACCUMULATE, f"{ACCUMULATE}\n    out[0] += *(const volatile int32_t *)quantize_zero == 124;"
            ),
        ),
    ),
    "the rounding mode by the library": Wrong(
        "fesetround", (*stage("#include <fenv.h>", "fesetround(FE_TONEAREST);"),)
    ),
    "the rounding mode by an instruction, x86": Wrong("ldmxcsr", stage("", "__builtin_ia32_ldmxcsr(0x1f80);"), on=X86),
    "the rounding mode by an instruction, Arm": Wrong(
        "msr fpcr", stage("", '__asm__ volatile("msr fpcr, xzr");'), on=ARM
    ),
    "the time, x86": Wrong("rdtsc", stage("", "out[0] += __builtin_ia32_rdtsc() == 1;"), on=X86),
    "the time, Arm": Wrong(
        "mrs x",
        stage("", 'uint64_t ticks; __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks)); out[0] += ticks == 1;'),
        on=ARM,
    ),
    "the time by the library": Wrong("calls time", stage("#include <time.h>", "out[0] += time(NULL) == 1;")),
    "a random number": Wrong("calls rand", stage("#include <stdlib.h>", "out[0] += rand() == 1;")),
    "the environment": Wrong("calls getenv", stage("#include <stdlib.h>", 'out[0] += getenv("WRONG") != NULL;')),
    "memory of the heap": Wrong(
        "malloc", stage("#include <stdlib.h>", "void *there = malloc(7); out[0] += there == NULL; free(there);")
    ),
    "a system call, x86": Wrong(
        "syscall",
        stage(
            "", 'long id = 39; __asm__ volatile("syscall" : "+a"(id) : : "rcx", "r11", "memory"); out[0] += id == 1;'
        ),
        on=X86,
    ),
    "a system call, Arm": Wrong(
        "svc",
        stage("", 'register long id __asm__("x8") = 172; __asm__ volatile("svc #0" : : "r"(id) : "x0", "memory");'),
        on=ARM,
    ),
    "the processor's name": Wrong(
        "cpuid", stage("#include <cpuid.h>", "unsigned a, b, c, d; __cpuid(0, a, b, c, d); out[0] += b == 1;"), on=X86
    ),
    "a table of functions": Wrong(
        "layer_0_f",
        (
            Patch("network.c", FORWARD, f"{TABLE}\n{FORWARD}"),
            Patch("network.c", CALL, "parts[0](acc, layer_0_output[v]);"),
        ),
    ),
    "code before main": Wrong(
        "early", stage("static __attribute__((constructor)) void early(void)\n{\n    layer_0_offset[0] = 5;\n}", "")
    ),
    "a stage that another function calls": Wrong(
        "layer_0_finish is called by",
        (
            Patch(
                "network.c",
                CLOSE,
                f"{CLOSE}\n    layer_0_finish((const int32_t *)quantize_output, quantize_output[0]);",
            ),
        ),
    ),
    "a buffer that another function changes": Wrong(
        "network_close uses layer_0_output",
        (
            Patch(
                "network.c",
                "static void network_close(void)\n{",
                "static void network_close(void)\n{\n    layer_0_output[0][0] ^= 1;",
            ),
        ),
    ),
    "a stage that compares its input with its output": Wrong(
        "layer_0_accumulate compares or combines the addresses of its argument 2 and its argument 1",
        stage("", f"out[0] += (uintptr_t)in > (uintptr_t)out && {RARELY};"),
    ),
    "a stage that compares the distance of its arguments": Wrong(
        "layer_0_accumulate compares or combines the addresses of its argument 2 and its argument 1",
        stage("", f"out[0] += (uintptr_t)out - (uintptr_t)in < 4096 && {RARELY};"),
    ),
    "a stage that compares its input with a table": Wrong(
        "layer_0_accumulate compares or combines the addresses of",
        stage("", f"out[0] += (uintptr_t)in > (uintptr_t)layer_0_offset && {RARELY};"),
    ),
    "a stage that compares its input with its frame": Wrong(
        "layer_0_accumulate compares or combines the addresses of",
        stage("", f'int here; __asm__("" : "=m"(here)); out[0] += (uintptr_t)in > (uintptr_t)&here && {RARELY};'),
    ),
    "a helper that looks at the alignment of its argument": Wrong(
        "aligned, called by layer_0_accumulate, computes with bits of the address in its argument 2",
        stage(ALIGNED, f"out[0] += aligned(out) && {RARELY};"),
    ),
    "bits of an address in a vector register": Wrong(
        "layer_0_accumulate computes with bits of the address in its argument 2",
        stage(
            "",
            'uint64_t bits; __asm__("movq %1, %%xmm1; psrlq $8, %%xmm1; movq %%xmm1, %0"'
            ' : "=r"(bits) : "r"(out) : "xmm1");'
            f" out[0] += bits == 17 && {RARELY};",
        ),
        on=X86,
    ),
    "bits of an address by the flags of a sum": Wrong(
        "layer_0_accumulate computes with bits of the address in its argument 2",
        stage(
            "",
            'uint8_t even; void *at = out; __asm__("addq $1, %1; setp %0" : "=r"(even), "+r"(at));'
            f" out[0] += even && {RARELY};",
        ),
        on=X86,
    ),
    "a stage that looks whether its output is at an address": Wrong(
        "layer_0_accumulate computes with bits of the address in its argument 2",
        stage(
            "",
            'uint8_t equal; void *at = out; __asm__("subq $0x404000, %1; sete %0" : "=r"(equal), "+r"(at));'
            f" out[0] += equal && {RARELY};",
        ),
        on=X86,
    ),
    "a copy to a rounded address": Wrong(
        "layer_0_accumulate computes with bits of the address in its argument 2",
        stage("", f"if ({RARELY})\n        *(volatile int32_t *)((uintptr_t)out & ~(uintptr_t)63) = 0;"),
    ),
    "a function of the program with the name of one of the library": Wrong(
        "steps", stage(MEMCMP, "out[0] += memcmp(in, out, 4) == 77;")
    ),
    "an output that is read before it is written": Wrong(
        "layer_0_accumulate reads its argument 2 where it has not written it",
        (Patch("network.c", ACCUMULATE, f"const int32_t before = out[0];\n    {ACCUMULATE}\n    {READ_BEFORE}"),),
    ),
    "an output to which a value is added in memory": Wrong(
        "layer_0_accumulate reads its argument 2 where it has not written it",
        (Patch("network.c", ACCUMULATE, f"((volatile int32_t *)out)[5] += 1;\n    {ACCUMULATE}"),),
        hidden=False,
    ),
    "state in a register of MMX": Wrong(
        "not understood: function layer_0_accumulate has the instruction movq2dq xmm0, mm7",
        stage(
            "",
            'int32_t n; __asm__ volatile("movq2dq %%mm7, %%xmm0; movd %%xmm0, %0" : "=r"(n) : : "xmm0");'
            " out[0] += n == 7;",
        ),
        on=X86,
    ),
    "state in a segment register": Wrong(
        "not understood: function layer_0_accumulate has the instruction mov eax, fs",
        stage("", 'int32_t n; __asm__ volatile("mov %%fs, %0" : "=r"(n)); out[0] += n == 7;'),
        on=X86,
    ),
    "state in a vector register": Wrong(
        "layer_0_accumulate reads a register that neither it nor its caller has set: movd eax, xmm15",
        stage("", 'int32_t n; __asm__ volatile("movd %%xmm15, %%eax" : "=a"(n)); out[0] += n == 7;'),
        on=X86,
    ),
    "elements that a gather with a part of a mask leaves": Wrong(
        "layer_0_accumulate reads a register that neither it nor its caller has set: vpgatherdd",
        stage("", GATHER.replace("PART", "kshiftrb $7, %%k1, %%k1;")),
        on=X86,
        hidden=False,
    ),
    "state in a vector register, Arm": Wrong(
        "layer_0_accumulate reads a register that neither it nor its caller has set: fmov",
        stage("", 'uint32_t n; __asm__ volatile("fmov %w0, s31" : "=r"(n)); out[0] += n == 7;'),
        on=ARM,
    ),
    "a store that is not finished": Wrong(
        "layer_0_accumulate does not wait for its non-temporal stores: movntps",
        stage("", '__asm__ volatile("movntps %%xmm0, (%0)" : : "r"((uintptr_t)out) : "memory");'),
        on=X86,
        hidden=False,
    ),
    "a store that is not finished, Arm": Wrong(
        "layer_0_accumulate does not wait for its non-temporal stores: stnp",
        stage("", '__asm__ volatile("stnp xzr, xzr, [%0]" : : "r"(out) : "memory");'),
        on=ARM,
        hidden=False,
    ),
    "flags that are read without order": Wrong(
        "wait_for_flag reads the flag without an acquire instruction",
        (Patch("kernels/program/schedule.c", "memory_order_acquire", "memory_order_relaxed"),),
        on=ARM,
        split=("layer_0=prepost+network",),
        sync="flag",
    ),
    "flags that are raised without order": Wrong(
        "raise_flag writes the flag without a release instruction",
        (Patch("kernels/program/schedule.c", "memory_order_release", "memory_order_relaxed"),),
        on=ARM,
        split=("layer_0=prepost+network",),
        sync="flag",
    ),
}
HIDDEN_X86, HIDDEN_ARM = "lea .Lhidden(%%rip), %0", "adrp %0, .Lhidden\\n\\tadd %0, %0, :lo12:.Lhidden"


LIKE_OTHERS = {
    "a counter in a header of the kernels",
    "a cache with hashed keys",
    "an index of 16 bits",
    "state in initialised data",
    "a helper with state",
    "the time by the library",
    "a random number",
    "the environment",
    "memory of the heap",
    "the rounding mode by the library",
    "a stage that looks at the distance of its output to a boundary",
    "another layer's table",
    "an array of two items that the plan has",
    "accumulators that forward changes",
    "a thread's own counter",
    "a stage that another function calls",
    "a buffer that another function changes",
    "an output that forward changes",
    "the processor's name",
}
"""State that has a symbol, functions of the C library, addresses, tables: others of each are tried in `make test`."""


@pytest.mark.parametrize(
    ("name", "toolchain"),
    [
        (name, on) if on == wrong.on[0] and name not in LIKE_OTHERS else in_campaign(name, on)
        for name, wrong in WRONG.items()
        for on in wrong.on
    ],
)
def test_a_wrong_program_is_found_in_its_file(
    host: Profile, name: str, toolchain: str, tmp_path: Path, objects: Path
) -> None:
    wrong, board = WRONG[name], board_with(host, toolchain)
    patches = patches_of(wrong, toolchain)
    plan = planner.make(CHAIN, board, block=64, split=wrong.split, sync=wrong.sync)  # type: ignore[arg-type]
    claims = asked(plan, build(plan, board, tmp_path / "bundle", objects, patches))
    if wrong.said.startswith("not understood"):
        with pytest.raises(ToolError, match=wrong.said):
            list(claims)
    else:
        assert any(wrong.said in claim.counterexample for claim in claims if not claim.holds)


def patches_of(wrong: Wrong, toolchain: str) -> list[Patch]:
    address = HIDDEN_ARM if toolchain in ARM else HIDDEN_X86
    return [dataclasses.replace(patch, new=patch.new.replace("HIDDEN", address)) for patch in wrong.patches]


@pytest.mark.campaign
@pytest.mark.parametrize("name", [name for name, wrong in WRONG.items() if wrong.hidden and X86[0] in wrong.on])
def test_running_it_does_not_show_what_is_wrong(workshop: Workshop, name: str) -> None:
    """Without the claims about its file the proof of each of these programs holds."""
    trial = workshop.trial(CHAIN, patches_of(WRONG[name], "gcc"))
    claims = [*(question.ask() for question in trial.questions()), *trial.composed()]
    assert [claim.counterexample for claim in claims if not claim.holds] == []


def test_a_gather_of_all_elements_reads_none_of_its_destination(host: Profile, tmp_path: Path, objects: Path) -> None:
    schedule = planner.make(CHAIN, host, block=64)
    program = build(schedule, host, tmp_path / "bundle", objects, stage("", GATHER.replace("PART", "")))
    assert counterexamples(schedule, program) == []


def test_a_processor_that_is_not_known_is_a_failure_of_the_tool(host: Profile, tmp_path: Path, objects: Path) -> None:
    plan = planner.make(CHAIN, host, block=16)
    program = build(plan, host, tmp_path / "bundle", objects)
    content = bytearray(program.read_bytes())
    content[18:20] = (243).to_bytes(2, "little")  # RISC-V
    program.write_bytes(content)
    with pytest.raises(ToolError, match="EM_RISCV cannot be checked"):
        claims_of(plan, program)


def test_a_program_without_symbols_is_a_failure_of_the_tool(host: Profile, tmp_path: Path, objects: Path) -> None:
    plan = planner.make(CHAIN, host, block=16)
    program = build_patched(plan, host, tmp_path / "bundle", flags=["-s"], objects=objects).path
    with pytest.raises(ToolError, match="no symbol table"):
        claims_of(plan, program)


def test_only_the_deployed_file_is_read(host: Profile, tmp_path: Path, objects: Path) -> None:
    plan = planner.make(CHAIN, host, block=16)
    program = build(plan, host, tmp_path / "bundle", objects)
    asked = structure.questions(codegen.generate(plan), (program, "0" * 64))
    with pytest.raises(ToolError, match="is not the deployed program"):
        next(asked).ask()


def test_each_claim_that_holds_has_the_hash_of_the_file(host: Profile, tmp_path: Path, objects: Path) -> None:
    plan = planner.make(CHAIN, host, block=16)
    claims = claims_of(plan, build(plan, host, tmp_path / PROGRAM, objects))
    asked = [question.ask().question.statement for question in structure.questions(codegen.generate(plan), None)]
    assert [claim.question.statement for claim in claims] == asked
    assert len({claim.answers_sha256 for claim in claims}) == 1


def test_a_static_program_is_a_failure_of_the_tool(host: Profile, tmp_path: Path, objects: Path) -> None:
    plan = planner.make(CHAIN, host, block=16)
    program = build_patched(plan, host, tmp_path / "bundle", flags=["-static"], objects=objects).path
    with pytest.raises(ToolError, match="statically linked program cannot be checked") as raised:
        claims_of(plan, program)
    assert "remove static and -static from the profile's toolchain" in raised.value.hint
