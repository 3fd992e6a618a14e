"""Elementwise operators on codes on target c: instructions of processors, and wrong operators, which proofs refute."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from harness.boards.profile import Profile
from harness.targets import KERNELS
from harness.targets.toolchain import find
from tests.support.codes import every_operator
from tests.support.examples import first_of_each
from tests.support.programs.board_program import Patch, assert_same, references, uniform_vectors, with_flags
from tests.support.programs.c_variants import (
    GNU,
    ZIG,
    Implementation,
    compile_network,
    instructions,
)
from tests.support.proof.trials import Workshop

IMPLEMENTATIONS = (
    Implementation(
        "VBMI", ("-O3", "-mavx512f", "-mavx512bw", "-mavx512vbmi", "-mfma"), ("vperm", "vfmadd"), "gcc", ("avx512vbmi",)
    ),
    Implementation("NEON", ("-O3", "-mcpu=cortex-a53"), ("tbx", "fmla"), GNU),
    Implementation("NEON by clang", ("-O3", "-mcpu=cortex_a72"), ("tbx", "fmla"), ZIG),
)


@pytest.mark.parametrize(
    ("implementation", "dtype"),
    [
        # GNU's compilers have codes of one type in `make test`, and all have both in `make campaigns`.
        pytest.param(each, dtype, id=f"{each.name}, {dtype}", marks=[] if number in {0, 3} else [pytest.mark.campaign])
        for number, (each, dtype) in enumerate(itertools.product(IMPLEMENTATIONS, ("uint8", "int8")))
    ],
)
def test_the_instructions_of_a_processor_give_the_bits_of_the_reference(
    implementation: Implementation, dtype: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    implementation.require()
    net = every_operator(dtype, 150)
    compiled = compile_network(net, implementation.board(host), tmp_path)
    for layer, expected in zip(("leaky", "sum"), implementation.instructions, strict=True):
        found = instructions(compiled, f"{layer}_compute")
        assert any(expected in each for each in found), f"{layer} without {expected}: {sorted(set(found))}"
    vectors = uniform_vectors(net, 100, seed=2)
    program = implementation.program(net, host, tmp_path / "bundle", objects)
    assert_same(program.activations(vectors, tmp_path / "run"), references(net, vectors))


FUSED = (
    Implementation("without FMA", ("-O3", "-march=x86-64"), ()),
    Implementation("with FMA", ("-O3", "-mfma"), (), "gcc", ("fma",)),
    Implementation("Arm", ("-O3", "-mcpu=cortex-a53"), (), GNU),
    Implementation("Arm by clang", ("-O3", "-mcpu=cortex_a72"), (), ZIG),
)
HEADER = (KERNELS / "c" / "fused.h").read_text(encoding="utf-8")
PORTABLE = f"#define FUSED_PORTABLE\n{HEADER}"


def wrong_sums(implementation: Implementation, host: Profile, folder: Path, header: str) -> str:
    """Compare a header in place of fused.h with the C library; return the differences that the program prints."""
    (folder / "fused.h").write_text(header, encoding="utf-8")
    source, program = Path(__file__).with_name("fused.c"), folder / "fused"
    find(implementation.board(host)).build(folder, (source,), (folder,), (), program, ("-lm",))
    return subprocess.run([*implementation.runner, program], capture_output=True, text=True, check=False).stdout


@pytest.mark.half_of_cases
@pytest.mark.parametrize("header", [HEADER, PORTABLE], ids=["instruction", "portable"])
@pytest.mark.parametrize("implementation", FUSED, ids=lambda each: each.name)
def test_fused_multiply_adds_are_those_of_the_c_library(
    implementation: Implementation, header: str, host: Profile, tmp_path: Path
) -> None:
    implementation.require()
    assert wrong_sums(implementation, host, tmp_path, header) == "0 of 1200000\n"


def test_fused_multiply_adds_by_two_roundings_are_found(host: Profile, tmp_path: Path) -> None:
    twice = PORTABLE.replace("(bits - (inexact & away)) | inexact", "bits")
    wrong = wrong_sums(FUSED[0], host, tmp_path, twice)
    assert 100_000 < int(wrong.split()[0]) < 300_000


WRONG = {
    "sum of rounded products": ("fused.h", "return (float)sum;", "return a * b + c;", "sum"),
    "ratios exchanged": ("network.c", "in_1[n], first_ratio, second", "in_1[n], second_ratio, first", "sum"),
    "zero points exchanged": ("network.c", "multiplier, a_zero_point, b", "multiplier, b_zero_point, a", "product"),
    "no zero point": ("network.c", "row_product_y_zero_point[0];", "0;", "row_product"),
    "another bound": ("network.c", "(v_0 > high) ? high", "(v_0 > high) ? high - 1", "clipped"),
    "the next entry": ("lookup.h", "table[place]", "table[(place + 1) % 256]", "leaky"),
    "a copy from the next place": ("network.c", "out[0 + n] = in_0[n];", "out[0 + n] = in_0[n ^ 1];", "copied"),
    "the table of another input": ("network.c", "joined_table[2], &out[12]", "joined_table[1], &out[12]", "joined"),
    "a sum that is too large": ("qlinear_softmax.h", "sum += table", "sum += 1.01f * table", "softmax"),
    "the largest of all but the last": ("qlinear_softmax.h", "n = 1; n < width;", "n = 1; n + 1 < width;", "softmax"),
    "a sum from the last on": ("qlinear_softmax.h", "sum += table[x[n]", "sum += table[x[width - 1 - n]", "softmax"),
    "the last value is forgotten": ("lookup.h", "n < width; ++n", "n + 1 < width; ++n", "sigmoid"),
}  # fmt: skip


@pytest.mark.half_of_cases
@pytest.mark.parametrize("wrong", first_of_each(WRONG))
def test_a_wrong_operator_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    file, old, new, layer = WRONG[wrong]
    path = file if file == "network.c" else f"kernels/c/{file}"
    workshop = Workshop(with_flags(host, "-O2"), objects, tmp_path)
    trial = workshop.trial(every_operator("uint8", 6), [Patch(path, old, new)])
    assert trial.refuted(layer)
