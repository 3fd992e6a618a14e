"""Operators on float32 images on target c in every variant: bits as the reference has them, and their proof."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.analysis.proof import constants
from harness.analysis.proof.independent import file
from harness.boards.profile import Profile
from harness.operators import float_contraction, obligations
from harness.reference import Reference, SpecificationReference
from tests.support.examples import first_of_each
from tests.support.float_images import every_operator
from tests.support.programs.arm_instructions import with_compiler
from tests.support.programs.board_program import Patch, assert_same, with_flags
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


@pytest.mark.half_of_cases
@pytest.mark.parametrize("target", EVERY)
def test_every_variant_has_the_bits_of_the_reference(target: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    net = every_operator()
    workshop = Workshop(with_flags(of_variant(host, target), *WARNED[target]), objects, tmp_path)
    trial = workshop.trial(net, block=7)
    rng = np.random.default_rng(1)
    vectors = rng.normal(0, 3, (60, net.vector.size)).astype(np.float32)
    vectors[:20] = rng.choice(np.float32([0, -0.0, -1, 1e-39]), (20, net.vector.size))
    assert_same(trial.program.activations(vectors, tmp_path / "run"), SpecificationReference(net).activations(vectors))


@pytest.mark.parametrize(
    ("target", "fewer"), [("c:vector", 10), *(pytest.param(each, 0, marks=pytest.mark.campaign) for each in EVERY)]
)
def test_the_proof_holds(
    target: str, fewer: int, host: Profile, objects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are 2^fewer times fewer samples than in a proof."""
    monkeypatch.setattr(obligations, "VALUES", obligations.VALUES >> fewer)
    monkeypatch.setattr(float_contraction, "WORK_OF_A_PROOF", float_contraction.WORK_OF_A_PROOF >> fewer)
    workshop = Workshop(with_flags(of_variant(host, target), *WARNED[target]), objects, tmp_path)
    assert workshop.trial(every_operator(), block=7).refuted() == {}


def test_onnx_runtime_confirms_every_layer_within_its_tolerance() -> None:
    net = every_operator()
    vectors = np.random.default_rng(1).normal(0, 3, (60, net.vector.size)).astype(np.float32)
    ratios = Reference(net).expected(vectors).ratios
    with_tolerance = [layer.errors.has_tolerance for layer in net.layers]
    assert [ratio is not None for ratio in ratios] == with_tolerance
    assert 0 < max(ratio for ratio in ratios if ratio is not None) < 1


def test_the_specification_has_the_constants_of_the_file() -> None:
    net = every_operator()
    assert constants._wrong_constant(net.layers, file.nodes(net.onnx_bytes)) == ""


CODE = "network.c"
ROW, COLUMN = "(p * 2 + i) * 6 + q", "y_so_far = (in[c * 42 + (p * 2 + i) * 6 + q] > y_so_far) ?"
VALUE = "in[c_first * 42 + k]"
WRONG = {
    "last of equal zeros": ("c", CODE, "] > y_so_far)", "] >= y_so_far)", "largest"),
    "maximum of magnitudes": (
        "c", CODE, f"({VALUE} > y_so_far_0)", f"({VALUE} * {VALUE} > y_so_far_0 * y_so_far_0)", "most"
    ),
    "last row first": ("c", CODE, ROW, ROW.replace("+ i", "+ 2 - i"), "largest"),
    "cut windows": ("c:vector", CODE, "j = inside_j.first;", "j = inside_j.first + 1;", "largest"),
    "last column": ("c:vector", CODE, COLUMN, f"{COLUMN} 0.0f * ", "largest"),
    "last value of the sum": ("c", CODE, f"s_so_far + in[c * 42 + {ROW}];", "s_so_far;", "means"),
    "multiplied by the reciprocal": (
        "c", CODE, "/ padded_count[p * 3 + q]", "* (1.0f / padded_count[p * 3 + q])", "padded"
    ),
    "sum of magnitudes": ("c", CODE, f"s_so_far_0 + {VALUE}", f"s_so_far_0 + __builtin_fabsf({VALUE})", "mean"),
    "last row first in the sum": ("c", CODE, ROW, ROW.replace("+ i", "+ 2 - i"), "means"),
    "last value first": ("c:vector", CODE, "* 42 + k]", "* 42 + 41 - k]", "mean"),
    "reciprocal": ("c", "network.c", "= A / B;", "= A * (1.0f / B);", "quotient"),
    "last of equal operands": ("c", "network.c", "(operand_3 > y_2_0)", "(operand_3 >= y_2_0)", "upper"),
    "larger instead of smaller": ("c", "network.c", "(operand_3 < y_2_0)", "(operand_3 > y_2_0)", "lower"),
    "another channel": ("c", "network.c", "shifted_addend[i0]", "shifted_addend[i0 / 2]", "shifted"),
    "operands in another order": (
        "c", "network.c", "in_1[i0 * 6 + i2], total_terms[i0]", "total_terms[i0], in_1[i0 * 6 + i2]", "total"
    ),
    "fused multiply-add": (
        "c", "network.c", "v_2 = v_1 * scale;\n    const float v_3 = v_2 + offset;",
        "v_3 = __builtin_fmaf(v_1, scale, offset);", "normalised",
    ),
    "product with the reciprocal": ("c", "network.c", "v_0 / deviation", "v_0 * (1.0f / deviation)", "normalised"),
    "factor first": (
        "c", "network.c", "v_0 / deviation;\n    const float v_2 = v_1 * scale;",
        "v_0 * scale;\n    const float v_2 = v_1 / deviation;", "normalised",
    ),
    "contracted sum of a Conv": (
        "c", CODE, "float v_0 = in[c * 42 + (p * 2 + i - 1)", "double v_0 = (double)in[c * 42 + (p * 2 + i - 1)",
        "windows",
    ),
    "contracted sum of a Gemm": (
        "c", CODE, "float v_0 = in[k] * rows_weights", "double v_0 = (double)in[k] * rows_weights", "rows",
    ),
    "reversed sum of a Gemm": (
        "c", CODE, "in[k] * last_weights[k * 5", "in[18 - k] * last_weights[(18 - k) * 5", "last",
    ),
    "last product of a Gemm": ("c:vector", "gemm_vector.h", "k < depth; ++k", "k + 1 < depth; ++k", "rows"),
    "bias of a Conv": ("c:vector", "conv_vector.h", "bias[m] + 0.0f", "0.0f", "windows"),
    "first group of a Conv": (
        "c:vector", "conv_vector.h", "x += layer->inputs * v->height * v->width", "x += 0", "groups"
    ),
    "fused interpolation": (
        "c", "network.c", "const float v_2 = v_0 + v_1;", "const float v_2 = __builtin_fmaf(top_left, left, v_1);",
        "linear",
    ),
    "row before": ("c", "network.c", "linear_rows[1][i1]", "linear_rows[0][i1]", "linear"),
    "place before": ("c", "network.c", "in[nearest_places[n]]", "in[nearest_places[n ? n - 1 : 0]]", "nearest"),
    "reversed sum of ReduceSum": ("c", "network.c", "in[k * 42 + ", "in[(8 - k) * 42 + ", "sums"),
    "reciprocal of the count": (
        "c", "network.c", "/ averages_count[0]", "* (1.0f / averages_count[0])", "averages",
    ),
    "last of equal values": ("c", "network.c", "+ l] > m_so_far_0)", "+ l] >= m_so_far_0)", "maxima"),
    "slope of another channel": ("c", "network.c", "sloped_slope[i0]", "sloped_slope[i0 ? i0 - 1 : 0]", "sloped"),
    "contracted squares": (
        "c", "network.c", "out[c * 42 + p] = out[c * 42 + p] + v_0;",
        "out[c * 42 + p] = __builtin_fmaf(in[(c + j - 2) * 42 + p], in[(c + j - 2) * 42 + p], out[c * 42 + p]);",
        "responses",
    ),
    "fused base": (
        "c", "network.c", "responses_bias[0] + v_0",
        "__builtin_fmaf(responses_factor[0], out[c * 42 + p], responses_bias[0])", "responses",
    ),
    "library's power": ("c", "network.c", "v_2 * v_3", "powf(v_1, 0.75f)", "responses"),
    "another row of a MatMul": ("c", CODE, "in[r * 6]", "in[(r ? r - 1 : 0) * 6]", "each_row"),
    "sum of Softmax without its first value": (
        "c", "network.c", "of_s[i] + out[k * 42 + i]", "of_s[i] + (k ? out[k * 42 + i] : 0.0f)", "of_channels"
    ),
    "contracted sum of a ConvTranspose": (
        "c", "conv_transpose.h", "to[n * v->stride_x] += from[n] * w",
        "to[n * v->stride_x] = __builtin_fmaf(from[n], w, to[n * v->stride_x])", "wider",
    ),
    "first group of a ConvTranspose": (
        "c", "conv_transpose.h", "m / (width / groups) * inputs * image", "0 * m / (width / groups) * inputs", "wider",
    ),
    "residual of another sign": ("c", "network.c", "= A + B;", "= A - B;", "residual"),
    "equality of a comparison": ("c", "network.c", "operand_1 < operand_2", "operand_1 <= operand_2", "is_below"),
    "a bool of all bits": ("c", "network.c", "(uint8_t)(v_0 & 1u)", "(uint8_t)v_0", "is_below"),
    "no negation": ("c", "network.c", " ^ 0xffffffffu", "", "is_no_peak"),
    "choice of the other operand": ("c", "network.c", "chosen(v_0, oper", "chosen(~v_0, oper", "chosen_of_both"),
    "sums before": ("c", "network.c", "of_s[(k + 1) * 6 + i];", "of_s[k * 6 + i];", "sums_so_far"),
    "sums from the other end": ("c", "network.c", "in[(8 - t) * 42 + i]", "in[t * 42 + i]", "sums_before"),
    "last value of the image": ("c:vector", CODE, "k < 42u", "k < 41u", "most"),
}  # fmt: skip


@pytest.mark.half_of_cases
@pytest.mark.parametrize("wrong", first_of_each(WRONG))
def test_a_wrong_operator_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    target, file, old, new, layer = WRONG[wrong]
    path = file if file == "network.c" else f"kernels/c/{file}"
    workshop = Workshop(with_flags(of_variant(host, target), LEVEL[target]), objects, tmp_path)
    trial = workshop.trial(every_operator(layer), [Patch(path, old, new)])
    assert trial.refuted(layer)


@pytest.mark.parametrize(("compiler", "target"), OTHER_COMPILERS)
def test_no_other_compiler_has_a_warning(compiler: str, target: str, host: Profile, tmp_path: Path) -> None:
    compile_network(every_operator(), with_compiler(host, target, compiler, (LEVEL[target],)), tmp_path, *WARNINGS)
