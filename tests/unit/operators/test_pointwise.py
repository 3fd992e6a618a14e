"""Operators that are defined by an expression: ONNX Runtime, ranges, errors and faults, derived for each alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.operators import by_onnx_name
from harness.operators.base import Layer
from harness.operators.exact.evaluation import Evaluation
from harness.operators.float_errors import Perturbed
from harness.operators.pointwise import Approximated, Pointwise
from harness.operators.pow import POWERS
from tests.support.functions import DOMAINS
from tests.unit.operators.test_functions import by_runtime, evaluated, layer_of, numbers, outside

OPERATORS = sorted(
    name for (domain, name), kind in by_onnx_name().items() if not domain and issubclass(kind, Pointwise)
)
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "Celu": [{"alpha": 0.3}, {"alpha": 7.0}],
    "Gelu": [{"approximate": "tanh"}, {"approximate": "none"}],
    "Pow": [{"exponent": exponent} for exponent in POWERS if exponent != 2],
    "Selu": [{"alpha": 0.5, "gamma": 3.0}],
    "Shrink": [{"lambd": 1.5, "bias": 0.3}],
    "ThresholdedRelu": [{"alpha": -0.7}],
}
CASES = [(name, attributes) for name in OPERATORS for attributes in ({}, *ATTRIBUTES.get(name, ()))]


def specified(layer: Layer, x: Any) -> Any:
    """Return the numbers for which a function is defined: magnitudes, if negative ones are refused."""
    assert isinstance(layer, Pointwise)
    if layer.operator in DOMAINS:
        return np.clip(x, *np.float32(DOMAINS[layer.operator]))
    return np.abs(x) if layer.least == 0 else x


def samples(width: int = 16) -> Any:
    """Numbers of all magnitudes, of the size of activations, and below 1."""
    rng = np.random.default_rng(4)
    near = rng.normal(0, 3, (1000, width)).astype(np.float32)
    small = rng.uniform(-1, 1, (400, width)).astype(np.float32)
    return np.concatenate([numbers(rng, (800, width)), near, small])


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "attributes"), CASES)
@pytest.mark.parametrize("optimised", [True, False])
def test_onnx_runtime_has_the_bits_or_is_within_the_tolerance(
    operator: str, attributes: dict[str, Any], optimised: bool
) -> None:
    layer, model = layer_of(operator, (16,), **attributes)
    x = specified(layer, samples())
    y = evaluated(layer, x)
    assert not outside(layer, x, y, by_runtime(model, x, optimised=optimised)).size
    assert layer.errors.has_tolerance is isinstance(layer, Approximated)


@pytest.mark.parametrize(("operator", "attributes"), CASES)
def test_the_tolerance_is_no_excuse_for_a_wrong_function(operator: str, attributes: dict[str, Any]) -> None:
    layer, _ = layer_of(operator, (16,), **attributes)
    x = specified(layer, np.random.default_rng(3).normal(0, 2, (1500, 16)).astype(np.float32))
    y = evaluated(layer, x)
    wrong = np.where(y == 0, np.float32(2.0**-12), y * np.float32(1 + 2.0**-12))
    assert len(outside(layer, x, y, wrong)) > x.size * 0.4


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_nan_gives_a_nan_and_infinities_no_other_result_than_onnx_runtime(operator: str) -> None:
    layer, model = layer_of(operator, (4,))
    nan = np.array([0x7F800001, 0x7FC00000, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    y = layer.prepare()(nan[None])
    takes_nan = operator not in {"Shrink", "ThresholdedRelu"}  # a comparison with NaN is false
    assert np.isnan(y).all() == takes_nan
    infinite = specified(layer, np.array([[np.inf, -np.inf, 0.0, -0.0]], np.float32))
    y, runtime = layer.prepare()(infinite), by_runtime(model, infinite)
    agree = (y == runtime) | np.isnan(y)
    assert agree[:, :2].all()


@pytest.mark.parametrize(("operator", "attributes"), CASES)
def test_values_are_between_the_derived_bounds(operator: str, attributes: dict[str, Any]) -> None:
    layer, _ = layer_of(operator, (16,), **attributes)
    rng = np.random.default_rng(6)
    for scale in (1e-3, 1, 30, 1e30):
        ends = np.sort(specified(layer, rng.normal(0, scale, (2, 16)).astype(np.float32)), axis=0)
        low, high = layer.errors.output_bounds([ends[:1]], [ends[1:]])
        x = rng.uniform(ends[0], ends[1], (500, 16)).astype(np.float32)
        y = evaluated(layer, x)
        assert (low <= y).all()
        assert (y <= high).all()


@pytest.mark.parametrize(("operator", "attributes"), CASES)
def test_results_for_perturbed_inputs_are_within_the_propagated_bound(
    operator: str, attributes: dict[str, Any]
) -> None:
    layer, model = layer_of(operator, (16,), **attributes)
    rng = np.random.default_rng(7)
    x = specified(layer, rng.normal(0, 4, (300, 16)).astype(np.float32))
    errors = np.abs(rng.normal(0, 1e-4, x.shape))
    y = evaluated(layer, x)
    bound = layer.errors.propagated(Perturbed([x], [errors], y))
    moved = specified(layer, (x + rng.uniform(-1, 1, x.shape) * errors * 0.99).astype(np.float32))
    for output in (evaluated(layer, moved), by_runtime(model, moved)):
        assert (np.abs(output.astype(np.float64) - y) <= bound).all()
    steps = {"Ceil", "Floor", "Round", "Sign", "ThresholdedRelu"}
    assert operator in steps | {"Reciprocal", "Log", "Pow", "Tan", *DOMAINS} or np.median(bound) < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
def test_faults_are_told_from_the_specification(operator: str) -> None:
    layer, _ = layer_of(operator, (16,))
    assert isinstance(layer, Pointwise)
    x = specified(layer, samples())
    right = evaluated(layer, x)
    causes = [model.cause for model in layer.wrong_functions(x)]
    same = [model.cause for model in layer.wrong_functions(x) if model.output.tobytes() == right.tobytes()]
    assert len(causes) == len(set(causes))
    assert causes
    assert len(same) <= len(causes) // 2, same


def test_all_operators_of_an_expression_are_functions_of_one_value() -> None:
    assert len(OPERATORS) >= 15
    for operator in OPERATORS:
        kind = by_onnx_name()["", operator]
        assert issubclass(kind, Pointwise)
        assert "y[n] = " in kind.text.formula.splitlines()[-1]
        assert kind.text.fragments[0].text.startswith(f"# ONNX {operator}: ")


def test_an_evaluation_does_not_depend_on_the_blocks() -> None:
    layer, _ = layer_of("Mish", (16,))
    assert isinstance(layer, Pointwise)
    x = np.random.default_rng(0).normal(0, 3, (3000, 16)).astype(np.float32)
    rows = np.concatenate([Evaluation(layer.definition)({"x": row[None]}) for row in x[:50]])
    assert rows.tobytes() == layer.prepare()(x)[:50].tobytes()
