"""Rows that are normalised: ONNX Runtime and ONNX's reference evaluator, wrong variants, bounds, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.base import Layer
from harness.operators.float_errors import Perturbed
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, node, specified
from tests.support.floats import assert_within, read_node

OPERATORS = ["LayerNormalization", "InstanceNormalization", "LogSoftmax", "LpNormalization"]


def configuration(rng: np.random.Generator, operator: str, shape: list[int]) -> tuple[Any, dict[str, Array]]:
    """A node with constants for images of this shape."""
    if operator == "LogSoftmax":
        return node(operator, "x", axis=int(rng.integers(1, 1 + len(shape)))), {}
    if operator == "LpNormalization":
        return node(operator, "x", axis=int(rng.integers(1, 1 + len(shape))), p=int(rng.integers(1, 3))), {}
    first = int(rng.integers(1, 1 + len(shape)))
    of_scale = shape[:1] if operator == "InstanceNormalization" else shape[first - 1 :]
    constants = {name: rng.normal(size=of_scale).astype(np.float32) for name in ("scale", "bias")}
    attributes: dict[str, Any] = {"epsilon": float(rng.choice([1e-5, 1e-3, 0.1]))}
    if operator == "LayerNormalization":
        attributes["axis"] = int(rng.choice([first, first - 1 - len(shape)]))
    names = ["scale", "bias"] if operator == "InstanceNormalization" or rng.integers(2) else ["scale"]
    return node(operator, "x", *names, **attributes), {name: constants[name] for name in names}


def layer_at_random(operator: str, seed: int = 0) -> tuple[Layer, Array]:
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 2, (40, 3, 5, 4)).astype(np.float32)
    proto, constants = configuration(rng, operator, [3, 5, 4])
    return layer_of(proto, constants, {"x": x}), x


def normalised(rng: np.random.Generator, operator: str) -> None:
    shape = rng.integers(1, 7, int(rng.integers(2, 5))).tolist()
    proto, constants = configuration(rng, operator, shape)
    x = np.ldexp(rng.normal(size=(6, *shape)), rng.integers(-8, 8)).astype(np.float32)
    bound = float(np.abs(x).max())
    assert (
        assert_within(proto, constants, {"x": x}, evaluator="Instance" in operator or "Layer" in operator, bound=bound)
        is not None
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_random_configurations_agree(operator: str, count: int) -> None:
    assert_agree_at_random(lambda rng: normalised(rng, operator), count)


OF_MEAN = [
    "in t: the terms of x[i, k] - u[i] are exchanged",  # the difference is squared
    "in w: 1.0 is multiplied by 1 / sqrt(t[i] / count[] + epsilon[]) in 1.0 / sqrt(t[i] / count[] + epsilon[])",
]
WITHOUT_EFFECT = {
    "LpNormalization": ["in y: the condition n[i] == 0.0 is taken as false"],  # no row is 0
    "LayerNormalization": OF_MEAN,
    "InstanceNormalization": OF_MEAN,
    "LogSoftmax": ["in m: the condition x[k, i] > m includes equality"],  # exp of 0 and -0 is 1
}
"""The fault models that give the specified bits for all inputs."""


@pytest.mark.parametrize("p", [1, 2])
def test_a_row_of_norm_0_stays_0(p: int) -> None:
    x = np.float32([[[3, -4, 0, 0], [0, -0.0, 0, 0]]])
    layer = layer_of(node("LpNormalization", "x", p=p), {}, {"x": x})
    [right] = specified(layer, {"x": x})
    assert right[:2].tolist() == pytest.approx([3 / (9 - 2 * p), -4 / (9 - 2 * p)])
    assert not right[2:].any()


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_fault_model_changes_some_values(operator: str) -> None:
    layer, x = layer_at_random(operator)
    right = specified(layer, {"x": x})
    unseen = []
    for model in layer.fault_models(x.reshape(40, -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        if model.output.tobytes() == right.tobytes():
            unseen.append(model.cause)
    assert [cause.replace("[0]", "[i]").replace("[k, 0]", "[i, k]") for cause in unseen] == WITHOUT_EFFECT[operator]


@pytest.mark.parametrize("operator", OPERATORS)
def test_results_for_inputs_with_errors_are_within_the_distance(operator: str) -> None:
    layer, x = layer_at_random(operator, 1)
    rng, flat = np.random.default_rng(2), x.reshape(40, -1)
    error = np.full(flat.shape, 1e-3)
    other = (flat + rng.uniform(-1e-3, 1e-3, flat.shape)).astype(np.float32)
    output = layer.prepare()(flat)
    bound = layer.errors.propagated(Perturbed([flat], [error], output))
    assert (np.abs(layer.prepare()(other).astype(np.float64) - output) <= bound).all()
    assert np.median(bound) < 1


REFUSED: dict[str, tuple[str, dict[str, Array], dict[str, Any], str]] = {
    "vectors": ("LayerNormalization", {"s": np.ones(5, np.float32)}, {"axis": 0}, "axis is 0"),
    "another shape": ("LayerNormalization", {"s": np.ones(4, np.float32)}, {}, r"the scale has shape \(4,\)"),
    "infinite": ("LayerNormalization", {"s": np.full(5, np.inf, np.float32)}, {}, "finite numbers"),
    "negative": ("LayerNormalization", {"s": np.ones(5, np.float32)}, {"epsilon": -1.0}, "epsilon is -1"),
    "channels": ("InstanceNormalization", {"s": np.ones(5, np.float32), "b": np.ones(3, np.float32)}, {}, "shape"),
    "computed": ("LayerNormalization", {}, {}, "is not constant"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    operator, constants, attributes, message = REFUSED[case]
    names = list(constants) or ["x"]
    with pytest.raises(RequestError) as caught:
        read_node(node(operator, "x", *names, **attributes), constants, {"x": np.ones((2, 3, 5), np.float32)})
    assert message.replace("\\", "") in f"{caught.value}; {caught.value.hint}".replace("\\", "")
