"""QLinearConv and MaxPool on target c: the bits of all variants and of all processors are the specification's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.analysis import proof
from harness.boards.profile import Profile
from harness.model.network import Network
from harness.operators.obligations import Extent, ProofStep
from harness.plan import planner
from tests.support.examples import in_test
from tests.support.programs.arm_instructions import with_compiler
from tests.support.programs.board_program import (
    Patch,
    assert_same,
    build,
    build_patched,
    references,
    run_sanitized,
    uniform_vectors,
)
from tests.support.programs.c_variants import (
    BY_NAME,
    GNU,
    VARIANTS,
    VECTOR,
    WARNINGS,
    ZIG,
    Implementation,
    compile_network,
    of_variant,
)
from tests.support.programs.convolutions import random_convolutions
from tests.support.proof.trials import Workshop

TYPES = {"u8u8": ("uint8", "uint8"), "u8s8": ("uint8", "int8"), "s8s8": ("int8", "int8")}
VECTORS = 20


def network(seed: int, axes: int = 2, types: str = "u8u8", layers: int = 3) -> Network:
    return random_convolutions(np.random.default_rng(seed), axes, *TYPES[types], layers)


# One implementation has every type of codes and network in `make test`, the others one of each.
SEVERAL = {"AVX512-VNNI"}
LIKE_OTHERS = {"portable, unoptimised", "NEON without dot products", "SDOT by clang"}
SEEDS = ((14, 2), (2, 1), (24, 2))


@pytest.mark.parametrize(
    ("name", "types", "seed", "axes"),
    [
        pytest.param(
            *(name, types, *SEEDS[place]),
            marks=()
            if place == number and (name in SEVERAL or index % len(TYPES) == number) and name not in LIKE_OTHERS
            else pytest.mark.campaign,
        )
        for index, name in enumerate(BY_NAME)
        for number, types in enumerate(TYPES)
        for place in range(len(SEEDS))
    ],
)
def test_every_implementation_has_the_bits_of_the_specification(
    name: str, types: str, seed: int, axes: int, host: Profile, objects: Path, tmp_path: Path
) -> None:
    BY_NAME[name].require()
    net = network(seed, axes, types)
    vectors = uniform_vectors(net, VECTORS, seed)
    program = BY_NAME[name].program(net, host, tmp_path / "bundle", objects)
    assert_same(program.activations(vectors, tmp_path / "run"), references(net, vectors))


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 160))
@pytest.mark.parametrize("name", ["AVX512-VNNI", "AVX512-VNNI and VBMI", "portable", "SDOT", "NEON"])
def test_random_networks_have_the_bits_of_the_specification(
    name: str, seed: int, host: Profile, objects: Path, tmp_path: Path
) -> None:
    BY_NAME[name].require()
    net = network(seed, 2 - seed % 4 // 3, list(TYPES)[seed % 3])
    vectors = uniform_vectors(net, VECTORS, seed)
    program = BY_NAME[name].program(net, host, tmp_path / "bundle", objects)
    assert_same(program.activations(vectors, tmp_path / "run"), references(net, vectors))


LANES = "kernels/c/lanes.h"
AVX_VNNI = [
    Patch(LANES, "defined(__AVX512VNNI__) && defined(__AVX512F__)", "0"),
    Patch(LANES, "defined(__AVXVNNI__)", "1"),
    Patch(LANES, "_mm256_dpbusd_avx_epi32", "_mm256_dpbusd_epi32"),
]
"""The code for AVX-VNNI, by the same instruction of AVX512-VNNI."""


@pytest.mark.parametrize(
    "types", [pytest.param(types, marks=() if types == "u8s8" else pytest.mark.campaign) for types in TYPES]
)
def test_the_code_for_avx_vnni_can_be_run_by_a_processor_with_avx512(
    types: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    flags = ("-O3", "-mavx2", "-mavx512vl", "-mavx512vnni")
    implementation = Implementation("AVX-VNNI", flags, (), "gcc", ("avx512vl", "avx512_vnni"))
    implementation.require()
    net = network(24, types=types)
    vectors = uniform_vectors(net, VECTORS, seed=1)
    program = implementation.program(net, host, tmp_path / "bundle", objects, AVX_VNNI)
    assert_same(program.activations(vectors, tmp_path / "run"), references(net, vectors))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("target", ["c", *VARIANTS[:3]])
def test_every_variant_has_the_bits_of_the_specification(
    target: str, host: Profile, cache: Path, tmp_path: Path
) -> None:
    net = network(24)
    vectors = uniform_vectors(net, VECTORS, seed=1)
    program = build(net, of_variant(host, target), cache, 10)
    assert_same(program.activations(vectors, tmp_path), references(net, vectors))


HEADER = "kernels/c/qlinear_conv_vector.h"
MUTANTS = {
    "padding is 0": (HEADER, "flip, (uint8_t)za,", "flip, (uint8_t)(0 * za),"),
    "a row further down": (HEADER, "from + i * w->dilation_y", "from + (i + 1) * w->dilation_y"),
    "dilation of columns forgotten": (HEADER, "+ QUAD * (row + j * w->dilation_x)", "+ QUAD * (row + j)"),
    "the last tile begins too early": (HEADER, "positions - LANES);\n}", "positions - LANES - 1);\n}"),
    "weights of the next group of channels": (HEADER, "&b[group * width *", "&b[(group + 1) % c->groups * width *"),
    "the weights' zero point left out": (HEADER, "(uint32_t)zb * (uint32_t)sum", "0 * (uint32_t)zb * (uint32_t)sum"),
    "a multiplier further": (HEADER, "lanes_spread_factor(m[n])", "lanes_spread_factor(m[(n + 1) % width])"),
    "the last column left out": ("kernels/c/max_pool_vector.h", "j < w->kernel_width", "j + 1 < w->kernel_width"),
}  # fmt: skip


IN_TEST = (
    "padding is 0",
    "dilation of columns forgotten",
    "the weights' zero point left out",
    "the last column left out",
)
"""A wrong value, a wrong index, a wrong sum, a wrong maximum; the other mutants have wrong indexes, too."""


@pytest.mark.half_of_cases
@pytest.mark.parametrize("mutant", in_test(MUTANTS, IN_TEST))
def test_a_mutant_is_caught(mutant: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    implementation = BY_NAME["portable"]
    implementation.require()

    def differs(seed: int) -> bool:
        net = network(seed)
        vectors = uniform_vectors(net, VECTORS, seed)
        program = implementation.program(net, host, tmp_path / str(seed), objects, [Patch(*MUTANTS[mutant])])
        found = program.activations(vectors, tmp_path / "run" / str(seed))
        return any(a.tobytes() != b.tobytes() for a, b in zip(found, references(net, vectors), strict=True))

    assert any(map(differs, (24, 17, 14)))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("mutant", ["padding is 0", "the weights' zero point left out"])
def test_the_questions_to_a_stand_in_of_a_large_network_refute_a_mutant(
    mutant: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    """Each code of a term at one position, and few random vectors."""
    workshop = Workshop(with_compiler(host, "c:vector", "gcc", ("-O2",)), objects, tmp_path)
    trial = workshop.trial(network(24), [Patch(*MUTANTS[mutant])])
    asked = list(proof.questions(trial.subject, Extent(False, 64, every_position=False)))
    assert any("each at one position, in" in question.method for question in asked)
    mixed = [question.method for question in asked if "what other columns hold" in question.statement]
    assert "64 vectors of at most 3 different values" in " ".join(mixed)
    sums = [question.ask() for question in asked if question.step is ProofStep.ACCUMULATION]
    assert [claim.question.layer for claim in sums if not claim.holds]


INSTRUCTIONS = {
    "those of this machine": [],
    "none": [Patch(LANES, "#define LANES_H\n", "#define LANES_H\n#define LANES_PORTABLE\n")],
}


@pytest.mark.parametrize(
    ("seed", "axes", "instructions"),
    [
        (17, 2, "those of this machine"),
        *(
            pytest.param(*each, marks=pytest.mark.campaign)
            for each in (
                *((2, 1, instructions) for instructions in INSTRUCTIONS),
                *((seed, 2, "none") for seed in (17, 24)),
                (24, 2, "those of this machine"),
            )
        ),
    ],
)
def test_nothing_is_read_or_written_beyond_a_buffer(
    seed: int, axes: int, instructions: str, host: Profile, tmp_path: Path
) -> None:
    net, board = network(seed, axes), of_variant(host, VECTOR)
    vectors = uniform_vectors(net, 25, seed=1)
    flags = ["-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]  # -O1 compiles for up to 40 s
    plan = planner.make(net, board, block=10)
    program = build_patched(plan, board, tmp_path / "bundle", INSTRUCTIONS[instructions], flags)
    done = run_sanitized(program, vectors, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same(program.read_dumps(tmp_path), references(net, vectors))


@pytest.mark.campaign
@pytest.mark.parametrize("types", TYPES)
def test_the_proof_holds(types: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    """Constants in their layout, sums, roundings, and what the machine code reads and writes."""
    net = network(2, 1, types, layers=2)
    assert Workshop(of_variant(host, VECTOR), objects, tmp_path).trial(net, block=7).refuted() == {}


@pytest.mark.parametrize("compiler", ["gcc", GNU, ZIG])
def test_no_compiler_has_a_warning(compiler: str, host: Profile, tmp_path: Path) -> None:
    compile_network(network(24), with_compiler(host, VECTOR, compiler, ("-O2",)), tmp_path, *WARNINGS)
