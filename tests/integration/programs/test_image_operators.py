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


FIRST, LAST = "a * w->width + b", "(i.first + i.end - 1 - a) * w->width + j.first + j.end - 1 - b"
POOL, MEANS, CODE = "qlinear_global_average_pool.h", "qlinear_average_pool.h", "network.c"
LAST_VALUE = "in[c * 42 + (p * 2 + i) * 6 + q]"
WRONG = {
    "mean without the zero point": (POOL, "sum += x[p] - zx", "sum += x[p]", "mean"),
    "mean without the last value": (POOL, "p < positions", "p + 1 < positions", "mean"),
    "mean of another channel": (POOL, "x += positions", "x += positions - 1", "mean"),
    "mean rounded up": (POOL, "(float)acc[c] * m, QMIN", "(float)acc[c] * m + 0.05f, QMIN", "mean"),
    "padding counts": (MEANS, "include_pad ?", "!include_pad ?", "padded"),
    "padding does not count": (MEANS, "include_pad ?", "!include_pad ?", "means"),
    "columns before rows": (MEANS, "x[a * w->width + b]", "x[b * w->height + a]", "means"),
    "sum of integers": (MEANS, "- zx) * sx;", "- zx);", "means"),
    "zero point after the rounding": (MEANS, "sy + (float)zy, QMIN", "sy + (float)zy * 1.001f, QMIN", "means"),
    "half the last window": (MEANS, "b < j.end", "b + 1 < j.end", "means"),
    "smallest value": (CODE, "] > y_so_far)", "] < y_so_far)", "largest"),
    "largest of one row less": (CODE, "i < 3u", "i < 2u", "largest"),
    "padding of the largest": (CODE, "q] = 0;", "q] = 7;", "largest"),
    "mean from the last value on": (MEANS, "x[a * w->width + b]", f"x[{LAST}]", "means"),
    "a pair of means": (MEANS, "sum += (float)", f"sum += x[{FIRST}] == 19 && x[{LAST}] == 203 ? 1 : (float)", "means"),
    "largest of one pair": (
        CODE, f"? {LAST_VALUE} :", f"? {LAST_VALUE} - ({LAST_VALUE} == 211 && y_so_far == 37) :", "largest"
    ),
    "one row further": ("qlinear_conv.h", "from = &a[(row", "from = &a[(row + 1", "conv"),
    "first group alone": ("qlinear_conv.h", "m / (width / groups) * inputs", "0 * (width / groups) * inputs", "conv"),
}  # fmt: skip


@pytest.mark.half_of_cases
@pytest.mark.parametrize("wrong", first_of_each(WRONG))
def test_a_wrong_operator_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    file, old, new, layer = WRONG[wrong]
    workshop = Workshop(with_flags(host, "-O2"), objects, tmp_path)
    path = file if file == CODE else f"kernels/c/{file}"
    trial = workshop.trial(every_operator("uint8", layer), [Patch(path, old, new)])
    assert trial.refuted(layer)


@pytest.mark.parametrize(
    ("compiler", "target"),
    OTHER_COMPILERS,
)
def test_no_other_compiler_has_a_warning(compiler: str, target: str, host: Profile, tmp_path: Path) -> None:
    compile_network(
        every_operator("int8"), with_compiler(host, target, compiler, (LEVEL[target],)), tmp_path, *WARNINGS
    )
