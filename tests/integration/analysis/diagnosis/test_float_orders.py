"""Float sums in other orders: the program differs from the specification, and the diagnosis names the order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from harness.analysis.diagnosis import cases, diagnose
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.plan import plan
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

LOOPS = """        for (size_t c = 0; c < inputs; ++c)
            for (size_t i = 0; i < v->kernel_height; ++i)
                for (size_t j = 0; j < v->kernel_width; ++j)
                    conv_add_float32(v, i, j, &of_group[c * image], *w++, y);
"""
OTHER_LOOPS = """        const size_t height = v->kernel_height, width_ = v->kernel_width;
        {}
            conv_add_float32(v, i, j, &of_group[c * image], w[(c * height + i) * width_ + j], y);
        w += inputs * height * width_;
"""
ROWS_FIRST = """for (size_t i = 0; i < height; ++i)
            for (size_t j = 0; j < width_; ++j)
                for (size_t c = 0; c < inputs; ++c)"""
LAST_FIRST = """for (size_t c = inputs; c-- > 0;)
            for (size_t i = height; i-- > 0;)
                for (size_t j = width_; j-- > 0;)"""
SUM = """    for (size_t k = 0; k < depth; ++k)
        for (size_t n = 0; n < width; ++n)
            y[n] += a[k] * w[k * width + n];
"""
TREE = """    for (size_t n = 0; n < width; ++n) {
        float t[64];
        size_t count = depth;
        for (size_t k = 0; k < depth; ++k)
            t[k] = a[k] * w[k * width + n];
        for (; count > 1; count = (count + 1) / 2)
            for (size_t k = 0; k < (count + 1) / 2; ++k)
                t[k] = 2 * k + 1 < count ? t[2 * k] + t[2 * k + 1] : t[2 * k];
        y[n] = t[0] + bias[n];
    }
"""
CONV, GEMM = "kernels/c/conv.h", "kernels/c/gemm.h"
FUSED = "__builtin_fmaf"
WRONG = {
    "contracted Conv": (
        Patch(CONV, "to[n] += from[n * v->stride_x] * w", f"to[n] = {FUSED}(from[n * v->stride_x], w, to[n])"),
        "conv",
        "multiplications and additions are contracted (FMA)",
    ),
    "reversed Conv": (
        Patch(CONV, LOOPS, OTHER_LOOPS.format(LAST_FIRST)),
        "conv",
        "the terms are added from the last to the first",
    ),
    "im2col by places": (
        Patch(CONV, LOOPS, OTHER_LOOPS.format(ROWS_FIRST)),
        "conv",
        "the products are added by row, column and channel (im2col)",
    ),
    "contracted Gemm": (
        Patch(GEMM, "y[n] += a[k] * w[k * width + n]", f"y[n] = {FUSED}(a[k], w[k * width + n], y[n])"),
        "gemm",
        "multiplications and additions are contracted (FMA)",
    ),
    "reversed Gemm": (
        Patch(GEMM, "for (size_t k = 0; k < depth; ++k)", "for (size_t k = depth; k-- > 0;)"),
        "gemm",
        "the terms are added from the last to the first",
    ),
    "tree": (Patch(GEMM, SUM, TREE), "gemm", "the terms are added pairwise, as a tree"),
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
    made = plan.make(NET, with_flags(host, "-O1", "-march=native"), block=100)
    program = build_patched(made, with_flags(host, "-O1", "-march=native"), tmp_path / "p", [patch], objects=objects)
    dumps = dict(enumerate(program.activations(VECTORS, tmp_path / "out", "--block", 100)))
    starts = [tuple(task.start for task in made.tasks_of(index)) for index in range(len(right))]
    found = [each for each in cases(NET, VECTORS, right, dumps, 0, 100, starts) if each.own]
    [diagnosis] = map(diagnose, found)
    assert NET.layers[diagnosis.layer].name == layer
    assert causes(diagnosis) == [cause]
