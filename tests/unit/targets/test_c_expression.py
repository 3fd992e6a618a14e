"""Choices and comparisons of definitions in C: the bits of numpy for special numbers, NaN too."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.operators.exact import from_ordered, ordered
from harness.operators.exact.evaluation import numpy_function
from harness.operators.exact.expression import Expression, Function, argument, larger, select, smaller
from harness.operators.exact.functions import clamped
from harness.targets import KERNELS
from harness.targets.c import expression
from harness.targets.toolchain import EXACTNESS_FLAGS
from tests.support.functions import definition

INFINITY = float("inf")
DEFINITIONS: dict[str, Callable[[Expression], Expression]] = {
    "less": lambda x: select(x < -1.5, 1, 2),
    "less_than_zero": lambda x: select(x < 0, 1, 2),
    "less_than_minus_zero": lambda x: select(x < -0.0, 1, 2),
    "less_than_minus_infinity": lambda x: select(x < -INFINITY, 1, 2),
    "less_than_positive": lambda x: select(x < 1.5, 1, 2),
    "greater": lambda x: select(x > 1.5, 1, 2),
    "greater_than_minus_zero": lambda x: select(x > -0.0, 1, 2),
    "greater_than_infinity": lambda x: select(x > INFINITY, 1, 2),
    "less_equal": lambda x: select(x <= 0, 1, 2),
    "magnitude": lambda x: select(abs(x) < 1.5, 1, 2),
    "magnitude_below_zero": lambda x: select(abs(x) < -1.5, 1, 2),
    "smaller": lambda x: smaller(x, 1.5),
    "smaller_number_first": lambda x: smaller(1.5, x),
    "larger": lambda x: larger(x, 0),
    "clamped": lambda x: clamped(x, -1.5, 1.5),
    "limit_not_reached": lambda x: clamped(abs(x), -1.5, 1.5),
    "limit_not_reached_but_by_nan": lambda x: smaller(-abs(x), 1.5),
}


def function(name: str) -> Function:
    x = argument("x")
    return Function(name, x, DEFINITIONS[name](x), np.abs, 0)


@pytest.mark.parametrize("flags", ["-O0", "-O3"])
def test_choices_have_the_bits_of_the_definition(flags: str, tmp_path: Path) -> None:
    source, library = tmp_path / "choices.c", tmp_path / "choices.so"
    functions = [function(name) for name in DEFINITIONS]
    texts = [definition(each).replace("static void", "void") for each in functions]
    source.write_text("\n".join(['#include <stddef.h>\n#include "elementary.h"', *texts]), encoding="utf-8")
    command = ["gcc", "-std=gnu11", flags, *EXACTNESS_FLAGS, "-shared", "-fPIC", f"-I{KERNELS / 'c'}", str(source)]
    subprocess.run([*command, "-o", str(library)], check=True)
    ends = ordered(np.float32([0, 1.5, -1.5, INFINITY, -INFINITY, 1e-38]))
    near = from_ordered(np.unique(np.clip(ends[:, None] + np.arange(-2, 3), ends.min(), ends.max())))
    nan = np.array([0x7F800001, 0x7FC00000, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    x = np.concatenate([near, np.float32([-0.0]), nan])
    program = ctypes.CDLL(str(library))
    for each in functions:
        y = np.empty_like(x)
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (x, y)]
        getattr(program, f"{each.name}_values")(ctypes.c_size_t(x.size), *pointers)
        right = numpy_function(each)(x)
        assert (np.isnan(y) == np.isnan(right)).all(), each.name
        assert y[~np.isnan(y)].tobytes() == right[~np.isnan(y)].tobytes(), each.name


@pytest.mark.parametrize(
    ("name", "numbers"), [("clamped", 2), ("limit_not_reached", 1), ("limit_not_reached_but_by_nan", 1), ("less", 0)]
)
def test_a_limit_that_no_value_reaches_is_left_out(name: str, numbers: int) -> None:
    assert len(expression.limits(function(name).root)) == numbers
