"""Poolings of float32 against ONNX Runtime and ONNX's reference evaluator, and wrong variants of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators.base import Layer
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, node, runtime, specified
from tests.support.floats import assert_within, numbers, outside
from tests.support.images import random_windows


def images(rng: np.random.Generator, axes: int) -> Array:
    return numbers(rng, 6, int(rng.integers(1, 5)), *rng.integers(1, 14 - 3 * axes, axes).tolist())


def windows(rng: np.random.Generator, axes: int) -> tuple[dict[str, Any], bool]:
    """Attributes, half of them plain: ONNX's evaluator fails or has other windows with padding and dilations."""
    attributes = random_windows(rng, axes, dilated=True) | {"ceil_mode": int(rng.integers(2))}
    plain = bool(rng.integers(2))
    return {name: attributes[name] for name in attributes if not plain or name in ("kernel_shape", "strides")}, plain


def largest(rng: np.random.Generator) -> None:
    axes = int(rng.integers(1, 4))
    attributes, plain = windows(rng, axes)
    assert_within(node("MaxPool", "x", **attributes), {}, {"x": images(rng, axes)}, evaluator=plain)


def largest_of_the_image(rng: np.random.Generator) -> None:
    x = images(rng, int(rng.integers(1, 4)))  # of sequences the evaluator's output has another shape
    assert assert_within(node("GlobalMaxPool", "x"), {}, {"x": x}, evaluator=x.ndim == 4) is not None


def means(rng: np.random.Generator) -> None:
    axes = int(rng.integers(1, 4))
    attributes, plain = windows(rng, axes)
    attributes["count_include_pad"] = int(rng.integers(2))
    assert_within(node("AveragePool", "x", **attributes), {}, {"x": images(rng, axes)}, evaluator=plain)


def norms(rng: np.random.Generator) -> None:
    axes = int(rng.integers(1, 4))
    attributes, _ = windows(rng, axes)
    attributes["p"] = int(rng.integers(1, 5))
    x = rng.normal(0, 3, images(rng, axes).shape).astype(np.float32)
    assert_within(node("LpPool", "x", **attributes), {}, {"x": x}, evaluator=False)


def norms_of_the_image(rng: np.random.Generator) -> None:
    x = rng.normal(0, 3, images(rng, int(rng.integers(1, 4))).shape).astype(np.float32)
    proto = node("GlobalLpPool", "x", p=int(rng.integers(1, 9)))
    assert assert_within(proto, {}, {"x": x}, evaluator=False) is not None


def means_of_the_image(rng: np.random.Generator) -> None:
    x = images(rng, int(rng.integers(1, 4)))
    assert assert_within(node("GlobalAveragePool", "x"), {}, {"x": x}) is not None


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("check", [largest, largest_of_the_image, means, means_of_the_image, norms, norms_of_the_image])
def test_random_configurations_agree(check: Callable[[np.random.Generator], None], count: int) -> None:
    assert_agree_at_random(check, count)


X = np.random.default_rng(0).choice(np.float32([0, -0.0, -1, 2, -3]), (60, 3, 7, 6))
X[::2] = np.minimum(X[::2], np.random.default_rng(1).choice(np.float32([0, -0.0, -1]), X[::2].shape))
X[5, :, -1] = X[6, ..., -1] = X[7, ..., -1, -1] = 9
WINDOW: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2],
                          "ceil_mode": 1}  # fmt: skip


def loops(layer: Layer, x: Array, first: float, combine: Callable[[Any, Any], Any]) -> Array:
    """The formula, one value after the other, in the order of the window."""
    sources = layer.window.sources(x.shape[1]).reshape(layer.size, -1)  # type: ignore[attr-defined] # of a pooling
    flat = x.reshape(len(x), -1)
    found = np.full((len(x), layer.size), first, np.float32)
    for column, places in enumerate(sources.tolist()):
        for place in places:
            if place >= 0:
                found[:, column] = combine(flat[:, place], found[:, column])
    return found


def test_the_first_of_equal_zeros_stays() -> None:
    layer = layer_of(node("MaxPool", "x", **WINDOW), {}, {"x": X})
    right = specified(layer, {"x": X})
    assert right.tobytes() == loops(layer, X, -np.inf, lambda x, y: np.where(x > y, x, y)).tobytes()
    assert (right == runtime(node("MaxPool", "x", **WINDOW), {}, {"x": X}).reshape(right.shape)).all()
    zeros = right[right == 0]
    assert 0 < np.signbit(zeros).sum() < len(zeros)
    last = loops(layer, X, -np.inf, lambda x, y: np.where(x >= y, x, y))
    assert last.tobytes() != right.tobytes()
    for values, negative in (([[0.0, -0.0], [0.0, -1.0]], False), ([[-1.0, -0.0], [0.0, -1.0]], True)):
        x = np.float32(values)[None, None]
        assert np.signbit(specified(layer_of(node("GlobalMaxPool", "x"), {}, {"x": x}), {"x": x})).all() == negative


@pytest.mark.parametrize("p", [1, 2, 3, 4, 6])
def test_a_norm_is_the_root_of_a_sum_of_powers(p: int) -> None:
    proto = node("LpPool", "x", **WINDOW, p=p)
    layer = layer_of(proto, {}, {"x": X})
    right = specified(layer, {"x": X})
    sums = loops(layer, np.abs(X.astype(np.float64)) ** p, 0, np.add).astype(np.float64)
    np.testing.assert_allclose(right, sums ** (1 / p), rtol=1e-6)
    causes = [model.cause for model in layer.fault_models(X.reshape(len(X), -1))]
    assert f"p is {2 if p == 1 else 1}" in causes


def test_infinities_and_the_value_that_onnx_runtime_gives_for_them() -> None:
    x = np.float32([[[-np.inf, -np.inf, np.inf, 1]]])
    proto = node("MaxPool", "x", kernel_shape=[2])
    layer = layer_of(proto, {}, {"x": x})
    output = specified(layer, {"x": x})
    assert output.tolist() == [[-np.inf, np.inf, np.inf]]
    assert runtime(proto, {}, {"x": x}).reshape(-1).tolist() == [np.finfo(np.float32).min, np.inf, np.inf]
    tolerance = layer.tolerance([x.reshape(1, -1)], output)
    assert tolerance is not None
    assert tolerance.tolist() == [[np.inf, 0, 0]]


Y = np.random.default_rng(2).normal(0, 1, (40, 3, 7, 6)).astype(np.float32)
PADDED: dict[str, Any] = WINDOW | {"count_include_pad": 1}
MEANS = {
    "values in the image": node("AveragePool", "x", **WINDOW),
    "values in the padding": node("AveragePool", "x", **PADDED),
    "one window": node("GlobalAveragePool", "x"),
}


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_a_sum_in_the_order_of_the_window_then_a_division(name: str) -> None:
    layer = layer_of(MEANS[name], {}, {"x": Y})
    right = specified(layer, {"x": Y})
    sums = loops(layer, Y, 0, np.add)
    divisors = np.tile(layer.count, Y.shape[1])  # type: ignore[attr-defined] # of an AveragePool
    assert right.tobytes() == (sums / divisors).tobytes()
    assert (sums * (np.float32(1) / divisors)).tobytes() != right.tobytes()
    found = runtime(MEANS[name], {}, {"x": Y}).reshape(right.shape)
    tolerance = layer.tolerance([Y.reshape(len(Y), -1)], right)
    assert tolerance is not None
    assert not outside(found, right, tolerance).any()
    magnitudes = specified(layer, {"x": np.abs(Y)})  # no sum cancels, and the bound is narrow
    tolerance = layer.tolerance([np.abs(Y).reshape(len(Y), -1)], magnitudes)
    assert tolerance is not None
    assert outside(magnitudes * np.float32(1.00001), magnitudes, tolerance).all()


def test_the_divisors_are_those_of_the_padded_image() -> None:
    ones = np.ones((1, 1, 4, 4), np.float32)
    attributes: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0], "ceil_mode": 1}
    counts = {False: [4, 6, 6, 9], True: [9, 9, 9, 9]}
    for include, expected in counts.items():
        proto = node("AveragePool", "x", count_include_pad=int(include), **attributes)
        layer = layer_of(proto, {}, {"x": ones})
        assert layer.count.tolist() == expected  # type: ignore[attr-defined] # of an AveragePool
    shortened = node("AveragePool", "x", count_include_pad=1, **(attributes | {"strides": [3, 3], "pads": [0] * 4}))
    layer = layer_of(shortened, {}, {"x": ones})
    assert layer.count.tolist() == [9, 3, 3, 1]  # type: ignore[attr-defined] # ceil_mode reaches beyond the image
    assert runtime(shortened, {}, {"x": ones}).tolist() == [[[[1, 1], [1, 1]]]]


def test_means_that_overflow_or_are_no_numbers() -> None:
    big = np.float32([[[3e38, 3e38, -3e38, 1, np.inf, -np.inf]]])
    layer = layer_of(node("AveragePool", "x", kernel_shape=[2]), {}, {"x": big})
    assert layer.output.bound == np.inf
    output = specified(layer, {"x": big})
    assert output.tolist()[0][:4] == [np.inf, 0, float(np.float32(-1.5e38)), np.inf]
    shown = layer.errors.specified([big.reshape(1, -1)], output)
    assert shown is not None
    assert shown.tolist() == [[True, True, True, True, False]]
    tolerance = layer.tolerance([big.reshape(1, -1)], output)
    assert tolerance is not None
    assert np.isinf(tolerance).tolist() == [[True, True, False, True, True]]


@pytest.mark.parametrize("name", MEANS)
def test_every_fault_model_of_a_mean_changes_some_values(name: str) -> None:
    layer = layer_of(MEANS[name], {}, {"x": Y})
    right, causes = specified(layer, {"x": Y}), set()
    for model in layer.fault_models(Y.reshape(len(Y), -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.add(model.cause)
    assert {
        "the terms are added pairwise, as a tree",
        "the terms are added from the last to the first",
        "each value is divided before the sum",
    } <= causes
    others = {"the axes of the steps of s are exchanged", "the last values along i are left out of s"}
    assert (others <= causes) == (name != "one window")


@pytest.mark.parametrize("operator", ["MaxPool", "GlobalMaxPool"])
def test_every_fault_model_of_a_largest_value_changes_some_values(operator: str) -> None:
    layer = layer_of(node(operator, "x", **(WINDOW if operator == "MaxPool" else {})), {}, {"x": X})
    right, causes = specified(layer, {"x": X}), set()
    for model in layer.fault_models(X.reshape(len(X), -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.add(model.cause)
    equality = [cause for cause in causes if "includes equality" in cause]
    assert "the value at the other end is taken" in causes
    assert len(equality) == 1
    assert ("places outside x count as 0 in y" in causes) == (operator == "MaxPool")
