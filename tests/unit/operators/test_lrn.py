"""LRN against ONNX Runtime and ONNX's reference evaluator, within its tolerance; wrong variants, refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, node, runtime, specified
from tests.support.floats import assert_within, numbers, outside, read_node


def attributes(rng: np.random.Generator) -> dict[str, Any]:
    given = {"alpha": [1e-4, 1, 0.5, 1e-2, 3], "beta": [0.25, 0.5, 0.75, 1], "bias": [1, 2, 0.5, 1e-3, 20]}
    return {"size": int(rng.choice([1, 3, 5, 7]))} | {name: float(rng.choice(each)) for name, each in given.items()}


def normalised(rng: np.random.Generator) -> None:
    channels = int(rng.integers(1, 12))
    shape = channels, channels, *rng.integers(1, 4, 2).tolist()  # ONNX's evaluator takes one size for both
    spread = np.float32(10 ** rng.uniform(-3, 3))
    x = numbers(rng, *shape) if rng.random() < 0.5 else rng.normal(0, 1, shape).astype(np.float32) * spread
    assert assert_within(node("LRN", "x", **attributes(rng)), {}, {"x": x}) is not None


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(normalised, count)


X = np.random.default_rng(0).normal(0, 3, (40, 6, 3, 4)).astype(np.float32)
ALEXNET: dict[str, Any] = {"size": 5, "alpha": 0.5, "beta": 0.75, "bias": 2.0}


def by_loops(x: Array, beta: float, *, step: int = 1) -> Array:
    """The formula, one value after the other, with the roots of `beta`."""
    root = {0.25: lambda d: np.sqrt(np.sqrt(d)), 0.5: np.sqrt, 0.75: lambda d: np.sqrt(d) * np.sqrt(np.sqrt(d)),
            1: lambda d: d}[beta]  # fmt: skip
    y = np.zeros_like(x)
    for c in range(6):
        s = np.zeros_like(x[:, 0])
        for j in [j for j in range(c - 2, c + 3) if 0 <= j < 6][::step]:
            s = s + x[:, j] * x[:, j]
        y[:, c] = x[:, c] / root(np.float32(2) + np.float32(0.5) / np.float32(5) * s)
    return y.reshape(len(x), -1)


@pytest.mark.parametrize("beta", [0.25, 0.5, 0.75, 1.0])
def test_the_squares_are_added_channel_by_channel(beta: float) -> None:
    proto = node("LRN", "x", **ALEXNET | {"beta": beta})
    layer = layer_of(proto, {}, {"x": X})
    right = specified(layer, {"x": X})
    assert right.dtype == np.float32
    assert right.tobytes() == by_loops(X, beta).tobytes()
    assert right.tobytes() != by_loops(X, beta, step=-1).tobytes()
    found = runtime(proto, {}, {"x": X}).reshape(right.shape)
    tolerance = layer.tolerance([X.reshape(40, -1)], right)
    assert tolerance is not None
    assert (tolerance <= 4e-5 * np.abs(right) + 1e-44).all()
    assert (found != right).any()
    assert not outside(found, right, tolerance).any()


def test_every_fault_model_changes_some_values() -> None:
    layer, causes = layer_of(node("LRN", "x", **ALEXNET), {}, {"x": X}), []
    right = specified(layer, {"x": X})
    for model in layer.fault_models(X.reshape(40, -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes))
    assert {
        "the terms are added from the last to the first",
        "the last values along j are left out of s",
        "s begins one place early along j",
        "s begins one place late along j",
        "in y: factor[] is left out of factor[] * s[c, p]",
    } <= set(causes)


REFUSED: dict[str, tuple[dict[str, Any], Array, str, str]] = {
    "other power": (ALEXNET | {"beta": 0.6}, X, "beta is 0.6", "0.75"),
    "even size": (ALEXNET | {"size": 4}, X, "size 4", "odd size"),
    "base of zero": (ALEXNET | {"bias": 0.0}, X, "bias 0.0", "positive normal bias"),
    "negative alpha": (ALEXNET | {"alpha": -1.0}, X, "alpha is -1.0", "0 or more"),
    "sequences": (ALEXNET, X[:, 0], "2 axes", "images"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    given, x, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        read_node(node("LRN", "x", **given), {}, {"x": x})
    assert re.search(hint, caught.value.hint)
