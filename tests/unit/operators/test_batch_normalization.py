"""BatchNormalization against ONNX Runtime and ONNX's evaluator within its bound, wrong variants, refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from tests.support.codes import COUNTS, assert_agree_at_random, node, runtime
from tests.support.floats import assert_within, numbers, outside, read_node

NAMES = ("scale", "offset", "mean", "var")
EPSILON = np.float32(1e-5)


def constants(rng: np.random.Generator, channels: int) -> dict[str, Any]:
    found = {name: rng.normal(0, 2, channels).astype(np.float32) for name in NAMES}
    found["var"] = np.abs(found["var"]) * np.float32(10.0 ** rng.integers(-6, 4))
    return found


def agree_at_random(rng: np.random.Generator) -> None:
    shape = rng.integers(1, 6, int(rng.integers(1, 4))).tolist()
    attributes = {} if rng.random() < 0.5 else {"epsilon": float(rng.choice([1e-3, 1e-7, 1.0]))}
    proto = node("BatchNormalization", "x", *NAMES, **attributes)
    assert assert_within(proto, constants(rng, shape[0]), {"x": numbers(rng, 6, *shape)}) is not None


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_lie_within_the_bound(count: int) -> None:
    assert_agree_at_random(agree_at_random, count)


RNG = np.random.default_rng(0)
GIVEN = constants(RNG, 3)
X = RNG.normal(0, 3, (60, 3, 4, 5)).astype(np.float32)
PROTO = node("BatchNormalization", "x", *NAMES)


def formula(x: Array) -> Array:
    scale, offset, mean, var = (GIVEN[name].reshape(3, 1, 1) for name in NAMES)
    y: Array = ((x - mean) / np.sqrt(var + EPSILON)) * scale + offset
    return y


def test_the_specification_is_four_operations_in_their_order() -> None:
    layer = read_node(PROTO, GIVEN, {"x": X})
    right = layer.prepare()(X.reshape(60, -1))
    assert right.tobytes() == formula(X).tobytes()
    found = runtime(PROTO, GIVEN, {"x": X}).reshape(right.shape)
    assert 0 < (found != right).mean() < 1  # another order
    tolerance = layer.tolerance([X.reshape(60, -1)], right)
    assert tolerance is not None
    assert not outside(found, right, tolerance).any()
    assert outside(right * np.float32(1.0001), right, tolerance).mean() > 0.8


def test_cancellation_is_within_the_bound() -> None:
    """x is near the mean, far from 0: the formula of ONNX Runtime loses most digits."""
    given = {"scale": np.float32([3]), "offset": np.float32([0]), "mean": np.float32([1000]), "var": np.float32([1])}
    x = (1000 + np.random.default_rng(1).normal(0, 1e-2, (500, 1))).astype(np.float32)
    layer = read_node(PROTO, given, {"x": x})
    right, found = layer.prepare()(x), runtime(PROTO, given, {"x": x})
    tolerance = layer.tolerance([x], right)
    assert tolerance is not None
    assert np.abs(found - right).max() > 1e-5
    assert not outside(found, right, tolerance).any()
    assert tolerance.max() < 0.01


def test_every_fault_model_changes_some_values() -> None:
    layer = read_node(PROTO, GIVEN, {"x": X})
    right, causes = layer.prepare()(X.reshape(60, -1)), []
    for model in layer.fault_models(X.reshape(60, -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        if "subnormal" not in model.cause:  # there are none
            assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) == 39


def test_bounds_of_the_output() -> None:
    layer = read_node(PROTO, GIVEN, {"x": X}, bound=9.0)
    extremes = np.float32([[9] * 60, [-9] * 60])
    largest = np.abs(layer.prepare()(extremes)).max()
    assert largest <= layer.output.bound <= largest * 1.00001
    assert read_node(PROTO, GIVEN, {"x": X}, bound=3e38).output.bound == np.inf


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "training": ({"training_mode": 1}, {}, "training_mode is 1", "inference"),
    "variance": ({}, {"var": np.float32([1, -1, 2])}, "not positive", "variance of 0 or more"),
    "shape": ({}, {"mean": np.float32([1])}, r"mean has shape \(1,\)", "one number a channel"),
    "infinite": ({}, {"scale": np.float32([1, np.inf, 2])}, "scale has values that are not finite", "finite"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    attributes, changed, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        read_node(node("BatchNormalization", "x", *NAMES, **attributes), GIVEN | changed, {"x": X})
    assert re.search(hint, caught.value.hint)
