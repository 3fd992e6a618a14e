"""Functions of one code against ONNX Runtime: random configurations, refusals, wrong variants."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

from harness.core.errors import RequestError
from harness.operators.base import Layer
from harness.operators.counters import Quantity
from harness.operators.obligations import Extent, Outputs
from tests.support.builders import make_model
from tests.support.codes import (
    COUNTS,
    assert_agree,
    assert_agree_at_random,
    every_code,
    layer_of,
    node,
    random_codes,
    random_dtype,
    random_scales,
    random_zero_points,
    runtime,
)
from tests.support.programs.board_program import parse

F32 = np.float32
INPUTS = ("x", "sx", "zx", "sy", "zy")
OPERATORS = ["QLinearLeakyRelu", "QLinearSigmoid"]


def constants(scales: Any, zero_points: Any, dtype: Any = "uint8") -> dict[str, Any]:
    """Quantisations of x and y."""
    named = dict(zip(("sx", "sy"), map(F32, scales), strict=True))
    return named | {name: np.array(z, dtype) for name, z in zip(("zx", "zy"), zero_points, strict=True)}


def agree_at_random(operator: str) -> Callable[[np.random.Generator], None]:
    def check(rng: np.random.Generator) -> None:
        dtype, size = random_dtype(rng), int(rng.integers(1, 70))
        scales = random_scales(rng, 2)
        if operator == "QLinearSigmoid":
            scales[1] = rng.choice([2.0**-8, 1 / 255, rng.uniform(1e-5, 1e-2)])
        given = constants(scales, random_zero_points(rng, 2, dtype), dtype)
        alphas = [0.01, 0.1, -0.5, 0, 1, 2.5, rng.uniform(0, 1)]
        attributes = {"alpha": float(rng.choice(alphas))} if operator == "QLinearLeakyRelu" else {}
        assert_agree(node(operator, *INPUTS, **attributes), given, {"x": every_code(rng, dtype, size)})

    return check


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_random_configurations_agree(operator: str, count: int) -> None:
    assert_agree_at_random(agree_at_random(operator), count)


def test_the_ends_of_the_logistic_function_and_images_agree() -> None:
    x = every_code(np.random.default_rng(0), np.dtype("int8"), 12).reshape(256, 3, 2, 2)
    for scale in (1.2e-38, 0.15, 1.0, 1e36):
        layer = assert_agree(node("QLinearSigmoid", *INPUTS), constants([scale, 1 / 256], [0, -128], "int8"), {"x": x})
        assert layer is not None
        assert layer.output.shape == (3, 2, 2)


REFUSED: dict[str, tuple[str, dict[str, Any], dict[str, Any], str, str]] = {
    "alpha": ("QLinearLeakyRelu", {"alpha": float("inf")}, {}, "'y' .*alpha is inf", "a finite number"),
    "scale": ("QLinearSigmoid", {}, {"sx": F32(1e37)}, r"255 codes of scale 9.99\d+e.36 overflow", "1.3e36 at most"),
    "attribute": ("QLinearSigmoid", {"alpha": 1.0}, {}, "attribute 'alpha' is unknown", ""),
    "zero point": ("QLinearSigmoid", {}, {"zy": np.int8(3)}, "zero point of y is int8", "uint8 is accepted"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    operator, attributes, changed, message, hint = REFUSED[case]
    given = constants([0.1, 0.1], [1, 2]) | changed
    with pytest.raises(RequestError, match=message) as caught:
        layer_of(node(operator, *INPUTS, **attributes), given, {"x": np.zeros((1, 3), np.uint8)})
    assert re.search(hint, caught.value.hint)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_node_without_zero_point_is_refused_as_onnx_runtime_aborts(operator: str) -> None:
    with pytest.raises(RequestError, match="has 4 inputs"):
        layer_of(node(operator, *INPUTS[:4]), constants([0.1, 0.1], [1, 2]), {"x": np.zeros((1, 3), np.uint8)})


# Faults, coverage and proof.


def layers(operator: str) -> list[Layer]:
    attributes = {"alpha": 0.3} if operator == "QLinearLeakyRelu" else {}
    pairs = [
        (0.5, 0.25),
        (0.25, 0.5),
        (0.07, 0.02),
        (0.3, 1e-6),
        (0.03, 0.0041),
        (1 / 3, 1 / 7),
        (0.1, 1 / 3),
        (0.1, 0.2),
    ]
    inputs, proto = {"x": np.zeros((1, 8), np.uint8)}, node(operator, *INPUTS, **attributes)
    return [layer_of(proto, constants(pair, [100, zero]), inputs) for pair in pairs for zero in (0, 121)]


NEVER = {
    "QLinearLeakyRelu": {"the condition d < 0.0 includes equality"},
    "QLinearSigmoid": {"x_scale is divided by 1 / (x - x_zero_point) in x_scale * (x - x_zero_point)"},
}
"""Faults that change none of these tables."""


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_fault_model_changes_some_values(operator: str) -> None:
    changed: dict[str, int] = {}
    x = every_code(np.random.default_rng(0), np.dtype("uint8"), 8)
    for layer in layers(operator):
        right = layer.prepare()(x)
        for model in layer.fault_models(x):
            assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
            changed[model.cause] = changed.get(model.cause, 0) + int((model.output != right).sum())
    assert {cause for cause, count in changed.items() if not count} == NEVER[operator]
    assert len(changed) > 20


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_counter_reaches_everything_by_all_codes(operator: str) -> None:
    x = every_code(np.random.default_rng(0), np.dtype("uint8"), 8)
    for layer in layers(operator):
        counter = layer.stimuli.counter(0)
        counter.add(x, layer.prepare()(x))
        found = counter.result()
        assert all(met.met == met.reachable for met in found.values())
        _, ties = layer.stimuli.find_ties()(x)
        assert (found[Quantity.TIES].met > 0) == ties.any()


def test_a_proof_passes_every_code_through_every_place() -> None:
    [obligation] = layers("QLinearSigmoid")[0].obligations(Extent(all_floats=False, random_vectors=0))
    assert isinstance(obligation.shown, Outputs)
    assert obligation.complete
    vectors = np.concatenate(list(obligation.shown.inputs()))
    assert vectors.size == obligation.cases
    assert all(len(np.unique(vectors[:256, place])) == 256 for place in range(8))


def test_tables_are_those_of_onnx_runtime() -> None:
    x = np.arange(256, dtype=np.uint8)[:, None]
    for operator in OPERATORS:
        given = constants([0.05, 0.01], [100, 20])
        layer: Any = layer_of(node(operator, *INPUTS), given, {"x": x})
        assert layer.table().tolist() == runtime(node(operator, *INPUTS), given, {"x": x})[:, 0].tolist()


# Relu and Clip of codes.


def agree_with_bounds(rng: np.random.Generator) -> None:
    dtype, size = random_dtype(rng), int(rng.integers(1, 70))
    low, high = np.sort(random_codes(rng, dtype, 2))
    names = {"both": ["low", "high"], "min": ["low"], "max": ["", "high"], "none": []}
    given = names[str(rng.choice(list(names)))]
    bounds = {name: value for name, value in (("low", low), ("high", high)) if name in given}
    x = {"x": every_code(rng, dtype, size)}
    assert assert_agree(node("Clip", "x", *given), bounds, x) is not None
    if dtype == np.int8:
        assert assert_agree(node("Relu", "x"), {}, x) is not None


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_comparisons_of_codes_agree(count: int) -> None:
    assert_agree_at_random(agree_with_bounds, count)


@pytest.mark.parametrize(
    ("proto", "dtype", "message", "hint"),
    [
        (node("Relu", "x"), "uint8", "'x' is uint8", "float32 or int8"),
        (node("Clip", "x", "number"), "int8", "min is float32", "int8 is accepted"),
        (node("Clip", "x", "high", "low"), "int8", "min is 5, above max, 3", "max or less"),
    ],
)
def test_refused_comparisons(proto: Any, dtype: str, message: str, hint: str) -> None:
    constants = {"number": F32(1), "high": np.int8(5), "low": np.int8(3)}
    with pytest.raises(RequestError, match=message) as caught:
        layer_of(proto, constants, {"x": np.zeros((1, 2), dtype)})
    assert re.search(hint, caught.value.hint)


def test_a_min_of_codes_after_relu_is_refused_as_onnx_runtime_cannot_load_it() -> None:
    nodes = [
        node("QuantizeLinear", "x", "one", "zero", output="q"),
        node("Relu", "q", output="r"),
        node("Clip", "r", "low"),
    ]
    constants = {"one": F32(1), "zero": np.int8(3), "low": np.int8(5)}
    made = make_model(nodes, constants, {"y": ("int8", 2)}, width=2)
    with pytest.raises(RequestError, match=r"'y' .*clips codes of a Relu") as caught:
        parse(made)
    assert caught.value.hint == "a Clip alone, with a min of 0"
    with pytest.raises(Exception, match="Unexpected data type for Clip 'min'"):
        onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    nodes[2].input[:] = ["r", "", "low"]
    assert len(parse(make_model(nodes, constants, {"y": ("int8", 2)}, width=2)).layers) == 3


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_faults_and_proof_of_comparisons(dtype: str) -> None:
    x = every_code(np.random.default_rng(0), np.dtype(dtype), 8)
    bounds = {"low": np.array(3, dtype), "high": np.array(100, dtype)}
    protos = [node("Clip", "x", "low", "high"), *([node("Relu", "x")] if dtype == "int8" else [])]
    for proto in protos:
        layer = layer_of(proto, bounds, {"x": x})
        right = layer.prepare()(x)
        changed = {model.cause: int((model.output != right).sum()) for model in layer.fault_models(x)}
        assert all(changed.values()), changed
        assert len(changed) > 2
        [obligation] = layer.obligations(Extent(all_floats=False, random_vectors=0))
        assert obligation.complete
        assert list(layer.assumptions()) == []
