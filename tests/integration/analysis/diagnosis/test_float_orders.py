"""Float sums in other orders: the program differs from the specification, and the diagnosis names the order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from harness.analysis.diagnosis import cases, diagnose
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.plan import planner
from harness.reference.stimuli import stimuli
from tests.support.builders import make_model
from tests.support.diagnosis.layers import causes
from tests.support.programs.board_program import Patch, build_patched, parse, references, with_flags

RANDOM = np.random.default_rng(3)
CONSTANTS = {
    "kernel": RANDOM.normal(size=(4, 3, 3, 3)).astype(np.float32),
    "offset": RANDOM.normal(size=4).astype(np.float32),
    "matrix": RANDOM.normal(size=(16, 7)).astype(np.float32),
    "bias": RANDOM.normal(size=7).astype(np.float32),
    "image": np.array([-1, 3, 8, 8]),
}
NET = parse(
    make_model(
        [
            helper.make_node("Reshape", ["x", "image"], ["images"], "reshape"),
            helper.make_node("Conv", ["images", "kernel", "offset"], ["windows"], "conv"),
            helper.make_node("AveragePool", ["windows"], ["means"], "pool", kernel_shape=[3, 3], strides=[3, 3]),
            helper.make_node("Flatten", ["means"], ["flat"], "flatten"),
            helper.make_node("Gemm", ["flat", "matrix", "bias"], ["y"], "gemm"),
        ],
        CONSTANTS,
        {"y": ("float32", 7)},
        width=192,
    )
)
COUNT = 400
VECTORS = stimuli(NET, COUNT, 1).chunk(0, COUNT)

CONV = """static ONE_CODE void conv_compute(const float *in, float *restrict out)
{{
    for (size_t m = 0; m < 4; ++m)
        for (size_t p = 0; p < 36; ++p) {{
            float y = conv_bias[m];
            {}
                            y = y + in[c * 64 + (p / 6 + i) * 8 + p % 6 + j] * conv_weights[m * 27 + c * 9 + i * 3 + j];
            out[m * 36 + p] = y;
        }}
}}
static inline void right_conv("""
ROWS_FIRST = """for (size_t i = 0; i < 3; ++i)
                for (size_t j = 0; j < 3; ++j)
                    for (size_t c = 0; c < 3; ++c)"""
LAST_FIRST = """for (size_t c = 3; c-- > 0;)
                for (size_t i = 3; i-- > 0;)
                    for (size_t j = 3; j-- > 0;)"""
TREE = """static ONE_CODE void gemm_compute(const float *in, float *restrict out)
{
    for (size_t m = 0; m < 7; ++m) {
        float t[16];
        for (size_t k = 0; k < 16; ++k)
            t[k] = in[k] * gemm_weights[k * 7 + m];
        for (size_t count = 16; count > 1; count /= 2)
            for (size_t k = 0; k < count / 2; ++k)
                t[k] = t[2 * k] + t[2 * k + 1];
        out[m] = t[0] + gemm_bias[m];
    }
}
static inline void right_gemm("""
CODE = "network.c"
WRONG = {
    "contracted Conv": (
        Patch(CODE, "float v_0 = in[c * 64", "double v_0 = (double)in[c * 64"),
        "conv",
        "multiplications and additions are contracted (FMA)",
    ),
    "reversed Conv": (
        Patch(CODE, "static ONE_CODE void conv_compute(", CONV.format(LAST_FIRST)),
        "conv",
        "the terms are added from the last to the first",
    ),
    "im2col by places": (
        Patch(CODE, "static ONE_CODE void conv_compute(", CONV.format(ROWS_FIRST)),
        "conv",
        "the products are added by row, column and channel (im2col)",
    ),
    "contracted Gemm": (
        Patch(CODE, "float v_0 = in[k] * gemm_weights", "double v_0 = (double)in[k] * gemm_weights"),
        "gemm",
        "multiplications and additions are contracted (FMA)",
    ),
    "reversed Gemm": (
        Patch(CODE, "for (size_t k = 0; k < 16u; ++k)", "for (size_t k = 16; k-- > 0;)"),
        "gemm",
        "the terms are added from the last to the first",
    ),
    "tree": (
        Patch(CODE, "static ONE_CODE void gemm_compute(", TREE),
        "gemm",
        "the terms are added pairwise, as a tree",
    ),
    "reciprocal": (
        Patch("network.c", "/ pool_count[p * 2 + q]", "* (1.0f / pool_count[p * 2 + q])"),
        "pool",
        "in y: s[c, p, q] is multiplied by 1 / count[p, q] in s[c, p, q] / count[p, q]",
    ),
}


@pytest.fixture(scope="module")
def right() -> tuple[Array, ...]:
    return references(NET, VECTORS)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", WRONG)
def test_another_order_is_found_and_named_alone(
    name: str, right: tuple[Array, ...], host: Profile, objects: Path, tmp_path: Path
) -> None:
    patch, layer, cause = WRONG[name]
    plan = planner.make(NET, with_flags(host, "-O1", "-march=native"), block=100)
    program = build_patched(plan, with_flags(host, "-O1", "-march=native"), tmp_path / "p", [patch], objects=objects)
    dumps = dict(enumerate(program.activations(VECTORS, tmp_path / "out", "--block", 100)))
    starts = [tuple(task.start for task in plan.tasks_of(index)) for index in range(len(right))]
    found = [each for each in cases(NET, VECTORS, right, dumps, 0, 100, starts) if each.own]
    [diagnosis] = map(diagnose, found)
    assert NET.layers[diagnosis.layer].name == layer
    assert causes(diagnosis) == [cause]
