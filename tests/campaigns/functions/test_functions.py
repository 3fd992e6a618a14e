"""The functions of definitions for all 2^32 inputs: errors, equality with the specification, ONNX Runtime.

The tables of docs/reference/float-operators.md are the expected values.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest

from harness.operators.exact import functions, trigonometric
from harness.operators.exact.evaluation import numpy_function
from harness.operators.fault_models import Single
from harness.operators.pointwise import LEAST_NORMAL, Pointwise
from tests.support.functions import CROSS, NATIVE, PLAIN, Compiled, compiled, layer_of

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(7200)]

PAGE = Path(__file__).parents[3] / "docs/reference/float-operators.md"
INFINITY, SIGN, ALL = 0x7F800000, 1 << 31, 1 << 32
BLOCK, PART, STEP_OF_EMULATED = 1 << 24, 1 << 14, 251
"""Inputs of one call of a program, inputs that the specification computes at once, and the step of a sample."""


class Described(NamedTuple):
    """A function, its specification and the signs of its inputs."""

    specification: Callable[[Single], Single]
    formula: str
    signs: tuple[int, ...] = (0, SIGN)


FUNCTIONS = {
    "exponential": Described(numpy_function(functions.exponential), "exp(x)"),
    "exponential_minus_one": Described(numpy_function(functions.exponential_minus_one), "exp(x) - 1, x <= 0", (SIGN,)),
    "hyperbolic_tangent": Described(numpy_function(functions.hyperbolic_tangent), "tanh(x)"),
    "logistic": Described(numpy_function(functions.logistic), "1 / (1 + exp(-x))"),
}
TRIGONOMETRIC = (
    "sine", "cosine", "tangent", "arcsine", "arccosine", "arctangent", "hyperbolic_sine", "hyperbolic_cosine",
    "inverse_hyperbolic_sine", "inverse_hyperbolic_cosine", "inverse_hyperbolic_tangent",
)  # fmt: skip


def assert_on_the_page(row: str) -> None:
    assert row in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_those_of_the_page(name: str, tmp_path: Path) -> None:
    program = compiled(NATIVE, tmp_path)
    of_signs = [errors(program, name, sign) for sign in FUNCTIONS[name].signs]
    worst = max(of_signs, key=lambda found: found["worst_ulp"])
    compared, not_nearest, other_infinity = (
        sum(found[key] for found in of_signs) for key in ("compared", "not_nearest", "other_infinity")
    )
    assert other_infinity == 0
    rises = "no" if any(found["falling"] for found in of_signs) else "yes"
    formula = FUNCTIONS[name].formula
    row = f"| {formula} | {worst['worst_ulp']:.4f} | {worst['at']} | {not_nearest:,} of {compared:,} "
    assert_on_the_page(f"{row}| {rises} |")


@pytest.mark.parametrize("name", TRIGONOMETRIC)
def test_errors_of_trigonometric_functions_are_the_stated_ones(name: str, tmp_path: Path) -> None:
    program = compiled(NATIVE, tmp_path)
    signs = (0,) if name == "hyperbolic_cosine" else (0, SIGN)
    worst = max(errors(program, name, sign)["worst_ulp"] for sign in signs)
    stated = getattr(trigonometric, name).ulp
    assert stated - 0.15 < worst <= stated


def errors(program: Compiled, name: str, sign: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(program(name, "errors", sign, INFINITY + 1))
    found["rising"], found["falling"] = (found["falls"], found["rises"]) if sign else (found["rises"], found["falls"])
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_programs_give_the_bits_of_the_specification(name: str, tmp_path: Path) -> None:
    """Those without optimisation are slow: they compute every eighth block."""
    native, plain = compiled(NATIVE, tmp_path / "native"), compiled(PLAIN, tmp_path / "plain")
    for sign in FUNCTIONS[name].signs:
        for number, first in enumerate(range(sign, sign + SIGN, BLOCK)):
            x = np.arange(first, first + BLOCK, dtype=np.int64).astype(np.uint32).view(np.float32)
            right = evaluated(FUNCTIONS[name].specification, x)
            for program in (native, plain) if number % 8 == number // 8 % 8 else (native,):
                assert_same_bits(right, np.frombuffer(program(name, "values", first, BLOCK, 1), np.float32))


@pytest.mark.skipif(CROSS is None, reason="no compiler for aarch64, or no qemu-aarch64")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_emulated_aarch64_gives_the_bits_of_the_specification(name: str, tmp_path: Path) -> None:
    assert CROSS is not None
    program = compiled(CROSS, tmp_path)
    for sign in FUNCTIONS[name].signs:
        x = np.arange(sign, sign + SIGN, STEP_OF_EMULATED, dtype=np.int64).astype(np.uint32).view(np.float32)
        found = np.frombuffer(program(name, "values", sign, len(x), STEP_OF_EMULATED), np.float32)
        assert_same_bits(evaluated(FUNCTIONS[name].specification, x), found)


def evaluated(function: Callable[[Single], Single], x: Single) -> Single:
    """Return the values in parts, which the second-level cache holds."""
    return np.concatenate([function(x[first : first + PART]) for first in range(0, len(x), PART)])


def assert_same_bits(right: Single, found: Single) -> None:
    """NaN has no specified payload."""
    different = np.flatnonzero(right.view(np.uint32) != found.view(np.uint32))
    assert np.isnan(right[different]).all()
    assert np.isnan(found[different]).all()


SMALLEST_IN_ULP = {"Tanh": 2.0**-100, "Sigmoid": np.inf, "Elu": np.inf}
"""Distances of results below it are stated in the page as numbers, not in ulp."""


@pytest.mark.parametrize("operator", ["Exp", "Tanh", "Sigmoid", "Elu", "HardSigmoid", "HardSwish"])
def test_distances_of_onnx_runtime_are_those_of_the_page(operator: str) -> None:
    layer, model = layer_of(operator)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    differing, ulp, small = 0, 0.0, 0.0
    for x in finite_floats():
        given = evaluated(layer.prepare(), x)
        found = session.run(None, {"x": x[:, None]})[0][:, 0]
        differing += int((given.view(np.uint32) != found.view(np.uint32)).sum())
        distance = np.where(given == found, 0, np.abs(given.astype(np.float64) - found))
        assert (distance <= tolerance(layer, x, given)).all()
        normal = np.isfinite(distance) & (np.abs(given) >= np.float64(SMALLEST_IN_ULP.get(operator, LEAST_NORMAL)))
        ulp = max(ulp, float((distance[normal] / np.spacing(np.abs(given[normal])).astype(np.float64)).max(initial=0)))
        small = max(small, float(distance[np.isfinite(distance) & ~normal].max(initial=0)))
    assert_on_the_page(f"| {operator} | {differing:,} | {ulp:.0f} | {small:.3g} |")


def tolerance(layer: Pointwise, x: Single, y: Single) -> Any:
    allowed = layer.tolerance([x], y)
    return 0 if allowed is None else allowed


def finite_floats() -> Iterator[Single]:
    for first in range(0, ALL, BLOCK):
        x = np.arange(first, first + BLOCK, dtype=np.int64).astype(np.uint32).view(np.float32)
        x = x[np.isfinite(x)]
        if len(x):
            yield x


def test_another_coefficient_is_noticed(tmp_path: Path) -> None:
    """The checks above would prove nothing if any program passed."""
    wrong = NATIVE._replace(change=("+ 0x1.55548cp-3f", "+ 0x1.55548ep-3f"))
    program = compiled(wrong, tmp_path)
    first = int(np.float32(0.25).view(np.uint32))
    x = np.arange(first, first + BLOCK, dtype=np.uint32).view(np.float32)
    values = np.frombuffer(program("exponential", "values", first, BLOCK, 1), np.float32)
    assert np.count_nonzero(values != evaluated(FUNCTIONS["exponential"].specification, x)) > 1000
    with pytest.raises(subprocess.CalledProcessError):
        program("exp2", "values", first, BLOCK, 1)
