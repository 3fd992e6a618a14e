"""Operators on images of codes on target c in every variant: bits as the reference has them, and their proof."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.analysis.proof import constants
from harness.analysis.proof.independent import file
from harness.boards.profile import Profile
from tests.support.examples import first_of_each
from tests.support.images import every_operator
from tests.support.programs.arm_instructions import with_compiler
from tests.support.programs.board_program import Patch, assert_same, references, uniform_vectors, with_flags
from tests.support.programs.c_variants import (
    EVERY,
    LEVEL,
    OTHER_COMPILERS,
    WARNED,
    WARNINGS,
    compile_network,
    of_variant,
)
from tests.support.proof.trials import Workshop

# Each variant has codes of one type in `make test`, and of both in `make campaigns`.
IN_TEST = {("uint8", "c"), ("int8", "c:vector"), ("uint8", "c:generic"), ("int8", "c:inlined"), ("uint8", "c:unrolled")}


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        pytest.param(target, dtype, marks=() if (dtype, target) in IN_TEST else pytest.mark.campaign)
        for target in EVERY
        for dtype in ("uint8", "int8")
    ],
)
def test_every_variant_has_the_bits_of_the_reference(
    target: str, dtype: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net = every_operator(dtype)
    workshop = Workshop(with_flags(of_variant(host, target), *WARNED[target]), objects, tmp_path)
    trial = workshop.trial(net, block=7)
    vectors = uniform_vectors(net, 100, seed=1)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), references(net, vectors))


PROVED = {("uint8", "c"), ("int8", "c:vector")}


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        pytest.param(target, dtype, marks=() if (dtype, target) in PROVED else pytest.mark.campaign)
        for target in EVERY
        for dtype in ("uint8", "int8")
    ],
)
def test_the_proof_holds(target: str, dtype: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    workshop = Workshop(with_flags(of_variant(host, target), *WARNED[target]), objects, tmp_path)
    assert workshop.trial(every_operator(dtype), block=7).refuted() == {}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_specification_has_the_constants_of_the_file(dtype: str) -> None:
    net = every_operator(dtype)
    assert constants._wrong_constant(net.layers, file.nodes(net.onnx_bytes)) == ""


ROW, FROM_LAST = "(p * 2 + i - 1) * 6 + q", "(p * 2 + inside_i.first + inside_i.end - 2 - i) * 6 + q"
PAIR = f"in[c * 42 + {ROW}] == 19 && in[c * 42 + {ROW} + 2] == 203"
LAST_VALUE = "in[c * 42 + (p * 2 + i) * 6 + q]"
WRONG = {
    "mean without the zero point": ("v_0 - mean_input_zero_point[0]", "v_0", "mean"),
    "mean without the last value": ("p < 42u", "p < 41u", "mean"),
    "mean of another channel": ("in[c * 42 + p]", "in[c * 41 + p]", "mean"),
    "mean rounded up": ("v_0 * mean_multiplier[0]", "v_0 * mean_multiplier[0] + 0.05f", "mean"),
    "padding counts": ("means_count[p * 5 + q]", "6.0f", "means"),
    "padding does not count": ("padded_count[p * 4 + q]", "(p < 5 ? 6.0f : 4.0f)", "padded"),
    "columns before rows": (ROW, "q * 7 + (p * 2 + i - 1)", "means"),
    "sum of integers": ("v_2 * means_input_step[0]", "v_2", "means"),
    "zero point after the rounding": ("v_1 + v_2;", "v_1 + v_2 * 1.001f;", "means"),
    "half the last window": ("j < inside_j.end", "j + 1 < inside_j.end", "means"),
    "smallest value": ("] > y_so_far)", "] < y_so_far)", "largest"),
    "largest of one row less": ("i < 3u", "i < 2u", "largest"),
    "padding of the largest": ("q] = 0;", "q] = 7;", "largest"),
    "mean from the last row on": (ROW, FROM_LAST, "means"),
    "a pair of means": ("s_so_far + v_3", f"s_so_far + ({PAIR} ? 1 : v_3)", "means"),
    "largest of one pair": (
        f"? {LAST_VALUE} :", f"? {LAST_VALUE} - ({LAST_VALUE} == 211 && y_so_far == 37) :", "largest"
    ),
    "one row further": ("(p * 2 + i - 1) * 6", "(p * 2 + i) * 6", "conv"),
    "first group alone": ("in[g * 84", "in[0", "conv"),
}  # fmt: skip


@pytest.mark.half_of_cases
@pytest.mark.parametrize("wrong", first_of_each(WRONG))
def test_a_wrong_operator_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    old, new, layer = WRONG[wrong]
    workshop = Workshop(with_flags(host, "-O2"), objects, tmp_path)
    trial = workshop.trial(every_operator("uint8", layer), [Patch("network.c", old, new)])
    assert trial.refuted(layer)


@pytest.mark.parametrize(("compiler", "target"), OTHER_COMPILERS)
def test_no_other_compiler_has_a_warning(compiler: str, target: str, host: Profile, tmp_path: Path) -> None:
    compile_network(
        every_operator("int8"), with_compiler(host, target, compiler, (LEVEL[target],)), tmp_path, *WARNINGS
    )
