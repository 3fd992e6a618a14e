"""The variants of target c: the bytes of all are ONNX Runtime's and the specification's, whatever the instructions."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.quantize_linear import QuantizeLinear
from harness.plan import planner
from harness.targets import KERNELS, toolchain
from harness.targets.contraction import DEPTH_LIMIT
from tests.campaigns.mutation.campaign import Trial, failed_steps
from tests.campaigns.mutation.networks import Subject
from tests.integration.programs.test_operators import COMPILED, half_way_vectors, models, special_values
from tests.support import builders
from tests.support.programs.arm_instructions import count_a_vector, with_compiler
from tests.support.programs.board_program import (
    Patch,
    assert_same,
    build,
    build_patched,
    parse,
    references,
    run_sanitized,
    uniform_vectors,
)
from tests.support.programs.c_variants import (
    BY_NAME,
    COMPILERS,
    GNU,
    QEMU,
    SATURATING,
    VARIANTS,
    VECTOR,
    WARNINGS,
    compile_network,
    disassembled,
    instructions,
    of_variant,
)
from tests.support.programs.chains import chain, qgemm, quantize

VECTORS = 203
LIKE_OTHERS = {
    "AVX512-VNNI and VBMI",
    "portable, unoptimised",
    "NEON without dot products",
    "SDOT by clang",
    "NEON by clang",
}
"""The same code by another compiler, or for another processor; test_convolutions.py has what VBMI adds."""
BY_ANOTHER_COMPILER = "NEON by clang"
NAMES = [
    pytest.param(name, marks=[pytest.mark.campaign] if name in LIKE_OTHERS - {BY_ANOTHER_COMPILER} else [])
    for name in BY_NAME
]
"""Instructions of a second compiler; `make test` has one kind of them."""
ACAS = (5, 50, 50, 50, 50, 50, 50, 5)
ROOM_BYTES = 64 * 1024


@settings(COMPILED, max_examples=4)
@given(model=models(), block=st.sampled_from([1, 16, 1000]), seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("target", [VECTOR, *(pytest.param(each, marks=pytest.mark.campaign) for each in VARIANTS[1:])])
def test_random_networks(
    target: str, model: onnx.ModelProto, block: int, seed: int, host: Profile, cache: Path, tmp_path: Path
) -> None:
    net = parse(model)
    vectors = half_way_vectors(net, VECTORS, seed)
    program = build(net, of_variant(host, target), cache, block)
    assert_same(program.activations(vectors, tmp_path), references(net, vectors))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("target", VARIANTS)
def test_a_column_of_a_layer_may_be_anybodys(target: str, host: Profile, cache: Path, tmp_path: Path) -> None:
    net = parse(builders.random_network(np.random.default_rng(4), (5, 41, 23), per_column=True, zero_points=True))
    vectors = uniform_vectors(net, VECTORS, seed=5)
    split = ["layer_0=prepost+network", "layer_1=network+prepost"]
    program = build(net, of_variant(host, target), cache, 10, split)
    assert_same(program.activations(vectors, tmp_path), references(net, vectors))


def networks() -> Iterator[tuple[str, Network, Array]]:
    """With all tails of panels and groups, and the extremes; ties, and floats of every kind."""
    options: dict[str, Any] = {"zero_points": True, "per_column": True, "weights": "uint8", "float_output": True}
    net = parse(builders.random_network(np.random.default_rng(4), (1, 17, 34, 51, 68, 3), **options))
    layer = net.layers[0]
    assert isinstance(layer, QuantizeLinear)
    yield "tails", net, np.concatenate([half_way_vectors(net, VECTORS, seed=6), special_values(layer.scale)[:2000]])
    options = {"activations": "int8", "zero_points": True, "per_column": True, "power_of_two": True}
    net = parse(builders.random_network(np.random.default_rng(5), (6, 80, 130, 15, 97, 2), **options))
    yield "int8", net, half_way_vectors(net, VECTORS, seed=6)
    yield "whole int32", *whole_int32()


def whole_int32() -> tuple[Network, Array]:
    """Accumulators up to both ends of int32, where offsets alone wrap around, in whole panels and a tail.

    The largest products are among them, and outputs beyond all codes; a scale of 1 is divided by, and NaN of all kinds.
    """
    rng, depth, width = np.random.default_rng(12), 31, 67
    weights, room = rng.integers(-128, 128, (depth, width)).astype(np.int8), 255 * 128 * depth
    weights[:, [3, 66]] = -128
    bias = rng.integers(-(2**31) + room, 2**31 - room, width)
    bias[:20] %= 2 * room
    scales = rng.uniform(0.5, 1.5, width) * 200 / (np.abs(bias) + room)
    net = chain([quantize(1, 0, "uint8"), qgemm(weights, bias, scales, (1.0, 128))], ("uint8", width), depth)
    codes = rng.integers(0, 256, (500, depth))
    codes[0], codes[1] = 0, 255
    return net, np.concatenate([codes.astype(np.float32), special_values(np.float32(1))[: 31 * 40].reshape(-1, depth)])


def deepest() -> tuple[Network, Array]:
    """As many of the largest products as are allowed, of either sign: 255 and 0 are 127 and -128 to instructions."""
    weights = np.repeat([[255, 0, 255, 0, 128]], DEPTH_LIMIT, axis=0).astype(np.uint8)
    weights[::2, 3] = 255
    nodes = [quantize(1, 0, "uint8"), qgemm(weights, np.zeros(5), np.ones(1), None)]
    codes = np.stack([np.full(DEPTH_LIMIT, 255), np.zeros(DEPTH_LIMIT), np.arange(DEPTH_LIMIT) % 256])
    return chain(nodes, ("float32", 5), DEPTH_LIMIT), codes.astype(np.float32)


@pytest.fixture(scope="module")
def subjects() -> list[tuple[str, Network, Array, tuple[Array, ...]]]:
    return [(name, net, vectors, references(net, vectors)) for name, net, vectors in networks()]


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.campaign] if name in LIKE_OTHERS else []) for name in BY_NAME]
)
def test_every_implementation_computes_every_network(
    name: str,
    subjects: list[tuple[str, Network, Array, tuple[Array, ...]]],
    host: Profile,
    objects: Path,
    tmp_path: Path,
) -> None:
    implementation = BY_NAME[name]
    implementation.require()
    for of_what, net, vectors, expected in subjects:
        program = implementation.program(net, host, tmp_path / of_what, objects)
        assert_same(program.activations(vectors, tmp_path / "dumps" / of_what), expected)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", ["AVX512-VNNI", "AVX-VNNI", "portable", "SDOT", "NEON"])
def test_the_largest_sums_fit(name: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    BY_NAME[name].require()
    net, vectors = deepest()
    program = BY_NAME[name].program(net, host, tmp_path, objects)
    assert_same(program.activations(vectors, tmp_path / "dumps"), references(net, vectors))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("target", ["c", *VARIANTS])
def test_a_signaling_nan_is_a_nan_on_arm_where_a_division_by_1_could_be_left_out(
    target: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    BY_NAME["NEON"].require()
    net = chain([quantize(1, 3, "int8")], ("int8", 3), 3)
    vectors = np.full((4, 3), 0x7F800001, np.uint32).view(np.float32)
    program = BY_NAME["NEON"].program(net, host, tmp_path, objects, target=target)
    assert_same(program.activations(vectors, tmp_path), (np.full((4, 3), -128, np.int8),))


LANES = "kernels/c/lanes.h"
PAIRS = "_mm256_maddubs_epi16(codes, b)"
MUTANTS = {
    "an offset forgotten": (
        "AVX512-VNNI",
        "_mm512_add_epi32((__m512i)sums, _mm512_loadu_si512(offset))",
        "((void)offset, (__m512i)sums)",
    ),
    "rounded towards zero": ("AVX512-VNNI", "_mm512_cvtps_epi32(v)", "_mm512_cvttps_epi32(v)"),
    "the lower lanes twice": ("AVX-VNNI", "lanes_load(b + GROUP_BYTES / 2)", "lanes_load(b)"),
    "codes in the order of the instruction": ("AVX-VNNI", "_MM_SHUFFLE(3, 1, 2, 0)", "_MM_SHUFFLE(3, 2, 1, 0)"),
    "saturating pairs": (
        "AVX-VNNI",
        "_mm256_dpbusd_avx_epi32((__m256i)sums, codes, b)",
        f"_mm256_add_epi32((__m256i)sums, _mm256_madd_epi16({PAIRS}, _mm256_set1_epi16(1)))",
    ),
    "products of pairs saturated": (
        "AVX2",
        "_mm256_madd_epi16(_mm256_cvtepu8_epi16(codes), _mm256_cvtepi8_epi16(b))",
        "_mm256_cvtepi16_epi32(_mm_maddubs_epi16(codes, b))",
    ),
    "sums in the order of the instruction": (
        "AVX2",
        "_mm256_permute4x64_epi64(words, _MM_SHUFFLE(3, 1, 2, 0))",
        "words",
    ),
    "a code short": ("portable", "i < QUAD; ++i)", "i < QUAD - 1; ++i)"),
    "the third quarter twice": ("SDOT", "vld1q_s8(b + 48), codes)", "vld1q_s8(b + 32), codes)"),
    "the lower half twice": ("NEON", "vmull_high_s8(b, codes)", "vmull_s8(vget_low_s8(b), vget_low_s8(codes))"),
    "sums of two lanes mixed": ("NEON", "vpaddq_s32(sums.c, sums.d)", "vpaddq_s32(sums.c, sums.e)"),
    "products of pairs in int16": (
        "NEON",
        "vpadalq_s16(sum, vmull_high_s8(b, codes))",
        "vaddq_s32(sum, vmovl_s16(vget_low_s16(vpaddq_s16(vmull_high_s8(b, codes), vmull_high_s8(b, codes)))))",
    ),
    "clamped from above alone": ("SDOT", "vmaxnmq_f32(v, low)", "((void)low, v)"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_of_an_implementation_is_caught(mutant: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    name, old, new = MUTANTS[mutant]
    BY_NAME[name].require()
    net, vectors = whole_int32()
    program = BY_NAME[name].program(net, host, tmp_path, objects, [Patch(LANES, old, new)])
    found = program.activations(vectors, tmp_path / "dumps")
    differing = [a.tobytes() != b.tobytes() for a, b in zip(found, references(net, vectors), strict=True)]
    assert differing[1]


@pytest.mark.parametrize("name", NAMES)
def test_every_implementation_rounds_infinities_and_nan_as_the_reference(
    name: str, host: Profile, tmp_path: Path
) -> None:
    implementation = BY_NAME[name]
    implementation.require()
    program = tmp_path / "rounding"
    source, include = Path(__file__).with_name("lanes_rounding.c"), (KERNELS / "c",)
    toolchain.find(implementation.board(host)).build(tmp_path, (source,), include, (), program)
    done = subprocess.run([*implementation.runner, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0 of 1904\n")


BEST = "defined(__AVX512VNNI__) && defined(__AVX512F__)"
WITHOUT = {
    "nothing": [],
    "AVX512-VNNI": [Patch(LANES, BEST, "0")],
    "instructions": [Patch(LANES, "#define LANES_H\n", "#define LANES_H\n#define LANES_PORTABLE\n")],
}


@pytest.mark.parametrize(
    ("target", "without"),
    [
        (VECTOR, "nothing"),
        (VECTOR, "instructions"),
        (VARIANTS[1], "nothing"),
        pytest.param(VECTOR, "AVX512-VNNI", marks=pytest.mark.campaign),
        *(pytest.param(target, "nothing", marks=pytest.mark.campaign) for target in VARIANTS[2:]),
    ],
)
def test_nothing_is_read_or_written_beyond_a_buffer(target: str, without: str, host: Profile, tmp_path: Path) -> None:
    """Blocks end within a panel and a group, so that whatever is beyond belongs to somebody else, or to nobody."""
    options = {"weights": "uint8", "zero_points": True, "per_column": True, "dequantize": True}
    net = parse(builders.random_network(np.random.default_rng(3), (7, 33, 18, 50, 1, 5), **options))
    vectors, board = uniform_vectors(net, 25, seed=1), of_variant(host, target)
    flags = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = build_patched(planner.make(net, board, block=10), board, tmp_path / "bundle", WITHOUT[without], flags)
    done = run_sanitized(program, vectors, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same(program.read_dumps(tmp_path), references(net, vectors))


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    "target", [*VARIANTS[:2], *(pytest.param(target, marks=pytest.mark.campaign) for target in VARIANTS[2:])]
)
def test_the_proof_holds_of_every_variant(target: str, host: Profile, tmp_path: Path) -> None:
    """Its constants, its sums and its roundings are asked of the machine code that runs."""
    options = {"weights": "uint8", "zero_points": True, "per_column": True, "argmax": True, "dequantize": True}
    net = parse(builders.random_network(np.random.default_rng(9), (3, 18, 5), **options))
    plan = planner.make(net, of_variant(host, target), block=10)
    program = build_patched(plan, of_variant(host, target), tmp_path / "bundle")
    subject = Subject.of(net, uniform_vectors(net, 256, seed=2))
    assert failed_steps(Trial(subject, plan, program.deployed(tmp_path / "run"), tmp_path), all_floats=False) == ()


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_made_by_the_instructions_that_the_processor_has(name: str, host: Profile, tmp_path: Path) -> None:
    """And by none that saturates."""
    implementation = BY_NAME[name]
    net = parse(builders.random_network(np.random.default_rng(1), (5, 50, 50, 5), dequantize=True))
    compiled = compile_network(net, implementation.board(host), tmp_path)
    for layer in net.layers[1:4]:
        found = instructions(compiled, f"{layer.name}_accumulate")
        for expected in implementation.instructions:
            assert any(expected in each for each in found), f"{layer.name} without {expected}: {sorted(set(found))}"
        assert not [each for each in found if any(bad in each for bad in SATURATING)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it is about instructions of x86")
@pytest.mark.parametrize("target", ["c", *VARIANTS])
@pytest.mark.parametrize(
    "widths", [(4, 21, 2), *(pytest.param(widths, marks=pytest.mark.campaign) for widths in ((1, 3, 8), (8, 1)))]
)
def test_no_branch_depends_on_a_float(target: str, widths: tuple[int, ...], host: Profile, tmp_path: Path) -> None:
    """A comparison of floats is what a compiler makes a branch of; maxima and minima need none."""
    net = parse(builders.random_network(np.random.default_rng(1), widths, zero_points=True, dequantize=True))
    compiled = compile_network(net, with_compiler(host, target, "gcc", ("-O3", "-mavx2")), tmp_path)
    assert "comis" not in disassembled(compiled)


def test_the_fastest_variant_of_an_acas_network_is_small(host: Profile, tmp_path: Path) -> None:
    """Code and constants of what is generated, 64 kB on top of the C library, and the stack of a layer."""
    net = parse(builders.random_network(np.random.default_rng(1), ACAS, dequantize=True))
    report = ("-fstack-usage", "-dumpdir", f"{tmp_path}/", "-dumpbase", "network")
    compiled = compile_network(net, of_variant(host, VECTOR), tmp_path, *report)
    assert text_and_data(compiled) <= ROOM_BYTES
    stack = [line.split("\t") for line in compiled.with_suffix(".su").read_text(encoding="utf-8").splitlines()]
    forward = {name.rpartition(":")[2]: int(size) for name, size, _ in stack if name.endswith("_forward")}
    assert set(forward) == {f"{layer.name}_forward" for layer in net.layers}
    assert max(forward.values()) <= 1024


@pytest.mark.skipif(QEMU is None, reason="qemu-aarch64 is not on this machine: apt-get install qemu-user")
@pytest.mark.parametrize("flags", [("-O3", "-mcpu=cortex-a53"), ("-O3", "-mcpu=neoverse-n1")])
def test_on_arm_it_takes_less_than_an_eighth_of_the_instructions_of_plain_c(
    flags: tuple[str, ...], host: Profile, tmp_path: Path
) -> None:
    net = parse(builders.random_network(np.random.default_rng(1), (5, 50, 50, 5), dequantize=True))
    counts = []
    for target, with_flags in (("c", ("-O2",)), (VECTOR, flags)):
        folder = tmp_path / target
        folder.mkdir()
        counts.append(count_a_vector(net, with_compiler(host, target, GNU, with_flags), folder))
    assert counts[1] < counts[0] / 8


@pytest.mark.parametrize(("compiler", "target"), COMPILERS)
def test_no_compiler_has_a_warning(compiler: str, target: str, host: Profile, tmp_path: Path) -> None:
    options = {"zero_points": True, "per_column": True, "residual": 2, "argmax": True}
    net = parse(builders.random_network(np.random.default_rng(1), (5, 18, 3), **options))
    compile_network(net, with_compiler(host, target, compiler, ("-O2",)), tmp_path, *WARNINGS)


def text_and_data(compiled: Path) -> int:
    done = subprocess.run(["size", str(compiled)], capture_output=True, text=True, check=True)
    text, data = done.stdout.splitlines()[1].split()[:2]
    return int(text) + int(data)
