"""Reductions of float32 against ONNX Runtime and ONNX's reference evaluator, wrong variants of them, and refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.functions import exponential, logarithm
from harness.operators.reduce import Reduce
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, node, runtime, specified
from tests.support.floats import assert_within, numbers, outside, read_node

OPERATORS = [name for _, name in Reduce.ONNX]


def reduced(rng: np.random.Generator, operator: str) -> None:
    shape = rng.integers(1, 7, int(rng.integers(1, 5))).tolist()
    axes = 1 + rng.permutation(len(shape))[: int(rng.integers(1, 1 + len(shape)))]
    given = {"axes": np.where(rng.random(len(axes)) < 0.5, axes, axes - len(shape) - 1)}
    keepdims = int(rng.integers(2))
    x = numbers(rng, 6, *shape)
    if operator == "ReduceProd":  # a product that overflows before a factor 0 is NaN
        x = rng.normal(size=x.shape).astype(np.float32)
    layer = assert_within(node(operator, "x", "axes", keepdims=keepdims), given, {"x": x})
    assert (layer is None) == (not keepdims and len(axes) == len(shape))


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_random_configurations_agree(operator: str, count: int) -> None:
    assert_agree_at_random(lambda rng: reduced(rng, operator), count)


X = np.random.default_rng(0).normal(0, 1, (40, 3, 5, 4)).astype(np.float32)
SIGNED = np.random.default_rng(1).choice(np.float32([0, -0.0, -1, 2]), X.shape)
AXES = {"axes": np.array([1, 3])}
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "ReduceSum": lambda y, x: y + x,
    "ReduceMean": lambda y, x: y + x,
    "ReduceMax": lambda y, x: np.where(x > y, x, y),
    "ReduceMin": lambda y, x: np.where(x < y, x, y),
    "ReduceProd": lambda y, x: y * x,
    "ReduceL1": lambda y, x: y + np.abs(x),
    "ReduceL2": lambda y, x: y + x * x,
    "ReduceSumSquare": lambda y, x: y + x * x,
    "ReduceLogSumExp": lambda y, x: y + x,
}
FIRST = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceProd": 1}
LAST: dict[str, Callable[[Any], Any]] = {"ReduceMean": lambda y: y / np.float32(12), "ReduceL2": np.sqrt}


def exponential_of(x: Array) -> Array:
    return Evaluation(exponential.root)({"x": x})


def logarithm_of(x: Array) -> Array:
    return Evaluation(logarithm.root)({"x": x})


def by_loops(operator: str, x: Array) -> Array:
    """The formula, one value after the other, over the axes 1 and 3."""
    y = np.full((len(x), x.shape[2]), FIRST.get(operator, 0), np.float32)
    if operator == "ReduceLogSumExp":
        m = by_loops("ReduceMax", x)
        terms = exponential_of(x - m[:, None, :, None])
        return np.asarray(m + logarithm_of(by_loops("ReduceSum", terms)))
    for c in range(x.shape[1]):
        for j in range(x.shape[3]):
            y = COMBINE[operator](y, x[:, c, :, j])
    return np.asarray(LAST.get(operator, lambda sums: sums)(y))


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_values_are_taken_row_by_row(operator: str) -> None:
    proto = node(operator, "x", "axes")
    for x in (X, SIGNED):
        layer = layer_of(proto, AXES, {"x": x})
        right = specified(layer, {"x": x})
        assert right.tobytes() == by_loops(operator, x).tobytes()
        found = runtime(proto, AXES, {"x": x}).reshape(right.shape)
        tolerance = layer.tolerance([x.reshape(40, -1)], right)
        assert tolerance is not None
        assert not outside(found, right, tolerance).any()
        others = specified(layer, {"x": np.ascontiguousarray(x[:, :, ::-1])})
        assert outside(others, right, tolerance).any() or not right.any()


WITHOUT_EFFECT = (
    "in y: the sign of y is changed",  # twelve times
    "in y: y is divided by 1 / x[k, i, l] in y * x[k, i, l]",  # by reciprocals of few digits
    "in m: the condition x[k, i, l] > m includes equality",  # exp of 0 and -0 is 1
    "in s: exponential(x[k, i, l] - m[i]) is the float32 nearest to it",
    "in y: logarithm(s[i]) is the float32 nearest to it",
)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_fault_model_changes_some_values(operator: str) -> None:
    x = np.where(np.arange(len(X))[:, None, None, None] < 20, X, SIGNED)
    layer, causes = layer_of(node(operator, "x", "axes"), AXES, {"x": x}), []
    right = specified(layer, {"x": x})
    for model in layer.fault_models(x.reshape(40, -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        assert model.output.tobytes() != right.tobytes() or model.cause in WITHOUT_EFFECT, model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) >= 4


REFUSED: dict[str, tuple[list[str], dict[str, Any], dict[str, Any], str, str]] = {
    "vectors": (["a"], {"a": np.array([0, 1])}, {}, r"axes is \[0, 1\]", "axes 1 to 3"),
    "all axes": ([], {}, {}, r"axes is \[\]", "axes 1 to 3"),
    "twice": (["a"], {"a": np.array([1, -3])}, {}, r"axes is \[1, -3\]", "axes 1 to 3"),
    "nothing left": (["a"], {"a": np.array([1, 2, 3])}, {"keepdims": 0}, "leaves no axis", "keepdims 1"),
    "computed": (["x"], {}, {}, "the axes, 'x', is not constant", "initializer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    names, given, attributes, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        read_node(node("ReduceSum", "x", *names, **attributes), given, {"x": X})
    assert re.search(hint, caught.value.hint)
