"""Programs of stages as C, with loops and without: the bits of numpy, for strides, guards and rows of many sizes."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators.exact import stage_values
from harness.operators.exact.expression import Expression, larger
from harness.operators.exact.functions import exponential
from harness.operators.exact.stages import SKIP, Axis, Source, Stage, State, array, fold, program, recurrence, sources
from harness.operators.node import Node
from harness.operators.staged import Staged
from harness.operators.tensor import FLOAT32, Tensor
from harness.targets.base import KERNELS
from harness.targets.c.staged import StagedLowering
from harness.targets.toolchain import EXACTNESS_FLAGS
from tests.unit.operators.exact.test_stages import CONSTANTS, STAGES


@dataclass(frozen=True, eq=False)
class Program(Staged):
    """A layer of any definition."""

    stage: Stage
    constants_of_stage: Mapping[str, Array]

    @classmethod
    def read(cls, node: Node) -> Program:
        raise NotImplementedError

    def definition(self) -> Stage:
        return self.stage

    def numbers(self) -> Mapping[str, Any]:
        return self.constants_of_stage


def rows(outer: int, length: int, inner: int) -> Callable[[], Stage]:
    """Softmax of rows: of one value, of many, in lanes, in chains, in blocks with a rest."""
    o, k, i = Axis("o", outer), Axis("k", length), Axis("i", inner)
    x = Source("x", (o, k, i))

    def definition() -> Stage:
        m = fold("m", (o, i), (k,), -np.inf, lambda m: larger(x[o, k, i], m))
        e = array("e", (o, k, i), exponential(x[o, k, i] - m[o, i]))
        s = fold("s", (o, i), (k,), 0, lambda s: s + e[o, k, i])
        return array("y", (o, k, i), e[o, k, i] / s[o, i])

    return definition


def windows(size: int, kernel: int, stride: int, dilation: int, before: int, output: int) -> Callable[[], Stage]:
    """Sums of windows that begin before the array and end behind it."""
    y, z = Axis("y", size), Axis("z", size + 1)
    p, q, a, b = Axis("p", output), Axis("q", output), Axis("a", kernel), Axis("b", kernel)
    at = Source("x", (y, z)).at((p * stride + a * dilation - before, q * stride + b * dilation - before), SKIP)
    return lambda: fold("w", (p, q), (a, b), 0, lambda w: w + at)


def states(outer: int, steps: int, terms: int, inner: int) -> Callable[[], Stage]:
    """Two states, one of them a sum in each step."""
    o, t, n, i, k = (Axis(name, size) for name, size in zip("otnik", (outer, steps, terms, inner, steps), strict=True))
    x = Source("x", (o, t, n, i))

    def step(h: State, c: State) -> list[Expression]:
        v = fold("v", (o,), (n,), 0.25, lambda v: v + h[o] * x[o, t, n, 0])
        return [v[o] - c[o, 0], c[o, i] * 0.5 + x[o, t, 0, i]]

    def definition() -> Stage:
        e = array("e", (o, k), x[o, k, 0, 0] * 0.5)
        h, c = recurrence(t, {"h": ((o,), 1), "c": ((o, i), 2)}, step)
        return array("y", (o, k), h[k + 1, o] - c[k, o, 0] * e[o, k])

    return definition


ROWS = ((1, 1, 1), (5, 3, 1), (1, 41, 1), (16, 40, 1), (2, 3, 70), (1, 2, 128))
WINDOWS = ((5, 3, 1, 1, 1, 5), (7, 2, 3, 2, 2, 3), (4, 9, 1, 1, 4, 4), (3, 2, 2, 3, 3, 3))
STATES = ((1, 1, 1, 1), (6, 3, 12, 2), (1, 2, 3, 70))
DEFINITIONS: dict[str, Callable[[], Stage]] = {
    **STAGES,
    **{f"rows {shape}": rows(*shape) for shape in ROWS},
    **{f"windows {shape}": windows(*shape) for shape in WINDOWS},
    **{f"states {shape}": states(*shape) for shape in STATES},
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["plain", "generic", "unrolled"])
@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_loops_have_the_bits_of_numpy(name: str, variant: str, tmp_path: Path) -> None:
    stage = DEFINITIONS[name]()
    read = sources(program(stage))
    [x] = [source for source in read if not source.is_constant]
    constants = {source.name: CONSTANTS[source.name] for source in read if source.is_constant}
    output = Tensor("y", stage.shape or (1,), FLOAT32)
    layer = Program("y", "y", "Program", (Tensor("x", x.shape, FLOAT32),), output, stage, constants)
    values = np.random.default_rng(0).normal(size=(3, x.size)).astype(np.float32)
    values[1] = np.random.default_rng(1).choice(np.float32([0, -0.0, 1, -1]), x.size)
    code = getattr(StagedLowering(), variant)(layer, ("in",))
    compute = compiled("\n".join([*code.shared.values(), code.definitions]), tmp_path)
    for vector, expected in zip(values, layer.prepare()(values), strict=True):
        result = np.empty(stage.size, np.float32)
        compute(vector.ctypes.data_as(ctypes.c_void_p), result.ctypes.data_as(ctypes.c_void_p))
        assert result.tobytes() == expected.tobytes()


def compiled(definitions: str, folder: Path) -> Any:
    """Return the function that computes a vector."""
    text = f"""\
#include <math.h>
#include <stddef.h>
#define ONE_CODE
#define DEFINE_STAGE(...)
#include "elementary.h"
#include "window.h"
{definitions}
void run(const float *in, float *out)
{{
    y_compute(in, out);
}}
"""
    (folder / "stages.c").write_text(text)
    command = [
        "gcc",
        "-O3",
        "-std=gnu11",
        "-Wall",
        "-Werror",
        *EXACTNESS_FLAGS,
        f"-I{KERNELS / 'c'}",
        "-shared",
        "-fPIC",
    ]
    subprocess.run([*command, str(folder / "stages.c"), "-o", str(folder / "stages.so"), "-lm"], check=True)
    return ctypes.CDLL(str(folder / "stages.so")).run


@pytest.mark.parametrize("name", DEFINITIONS)
def test_steps_one_by_one_have_the_bits_of_all_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = DEFINITIONS[name]()
    stages = program(stage)
    [x] = [source for source in sources(stages) if not source.is_constant]
    values = np.random.default_rng(0).normal(size=(3, x.size)).astype(np.float32)
    at_once = stage_values.Program(stages, CONSTANTS)(values)
    monkeypatch.setattr(stage_values, "MANY", 1)
    assert stage_values.Program(stages, CONSTANTS)(values).tobytes() == at_once.tobytes()


@pytest.mark.parametrize("inner", [512 * 512, 509 * 3])
def test_arrays_between_stages_are_small_where_rows_are_not_adjacent(inner: int) -> None:
    stage = rows(2, 4, inner)()
    [x] = sources(program(stage))
    layer = Program("y", "y", "Program", (Tensor("x", x.shape, FLOAT32),), Tensor("y", stage.shape, FLOAT32), stage, {})
    text = StagedLowering().plain(layer, ("in",)).definitions
    assert re.findall(r"float of_\w+\[(\d+)\];", text) == ["64", "64"]
