"""Wrong sums and scales, written here a second time, are named; a cause that most values contradict is not."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from harness.analysis.diagnosis import Diagnosis, Hypothesis, Observation
from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.sum_orders import placed_faults
from tests.support.codes import layer_of, node
from tests.support.diagnosis.layers import causes, codes, found, network, qgemm

F32 = np.float32
RNG = np.random.default_rng(2)
X = RNG.normal(size=(90, 9)).astype(F32)
WEIGHTS, BIAS = RNG.normal(size=(9, 5)).astype(F32), RNG.normal(size=5).astype(F32)
IMAGES, KERNELS = RNG.normal(size=(30, 2, 6, 6)).astype(F32), RNG.normal(size=(3, 2, 2, 2)).astype(F32)


def gemm() -> Layer:
    return layer_of(node("Gemm", "x", "w", "b"), {"w": WEIGHTS, "b": BIAS}, {"x": X})


def added(places: list[int], fused: int = -1) -> Array:
    """The sums of products in the order of the places, one of which may be fused with its addition."""
    acc = np.tile(BIAS, (len(X), 1))
    for place in places:
        if place == fused:
            for row, column in np.ndindex(acc.shape):
                product = Fraction(float(X[row, place])) * Fraction(float(WEIGHTS[place, column]))
                acc[row, column] = F32(float(product + Fraction(float(acc[row, column]))))
        else:
            acc = acc + X[:, place, None] * WEIGHTS[place]
    return acc


ORDER = list(range(9))
FLOAT_SUMS: dict[str, Callable[[], Array]] = {
    "the first product is contracted with its addition (one FMA)": lambda: added(ORDER, 0),
    "the last product is contracted with its addition (one FMA)": lambda: added(ORDER, 8),
    "one product is contracted with its addition (one FMA)": lambda: added(ORDER, 4),
    "two neighbouring terms of the sum are exchanged": lambda: added([0, 1, 2, 3, 5, 4, 6, 7, 8]),
    "8 partial sums are added at the end, in halves": lambda: in_halves(lanes(8)),
    "4 partial sums are added at the end, in pairs": lambda: in_pairs(*lanes(4)),
}


def lanes(count: int) -> list[Array]:
    products = [X[:, k, None] * WEIGHTS[k] for k in ORDER]
    return [sum(products[lane + count :: count], products[lane]) for lane in range(count)]


def in_halves(parts: list[Array]) -> Array:
    while len(parts) > 1:
        parts = [a + b for a, b in zip(parts[: len(parts) // 2], parts[len(parts) // 2 :], strict=True)]
    return parts[0] + BIAS


def in_pairs(a: Array, b: Array, c: Array, d: Array) -> Array:
    return ((a + b) + (c + d)) + BIAS


@pytest.mark.parametrize("cause", FLOAT_SUMS)
def test_a_wrong_float_sum_is_named(cause: str) -> None:
    assert causes(found(gemm(), X, FLOAT_SUMS[cause]())) == [cause]


def codes_of(layer: QGemm, acc: Array, multiplier: Array | None = None) -> Array:
    v = acc.astype(F32) * (layer.multiplier if multiplier is None else multiplier)
    return np.clip(np.rint(v.astype(float)) + layer.y_zero_point, 0, 255).astype(np.uint8)


def terms(layer: QGemm, inputs: Array) -> Array:
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    return (inputs.astype(np.int64) - layer.a_zero_point)[:, :, None] * weights


def saturated(layer: QGemm, inputs: Array, bits: int) -> Array:
    high = 2 ** (bits - 1)
    acc = np.zeros((len(inputs), layer.size), np.int64)
    for k in range(layer.input.size):
        acc = np.clip(acc + terms(layer, inputs)[:, k], -high, high - 1)
    return codes_of(layer, acc + layer.bias)


def with_exchanged_inputs(layer: QGemm, inputs: Array) -> Array:
    other = inputs.copy()
    other[:, [5, 6]] = inputs[:, [6, 5]]
    return codes_of(layer, terms(layer, other).sum(axis=1) + layer.bias)


def with_scale(layer: QGemm, inputs: Array, shift: int) -> Array:
    return codes_of(layer, terms(layer, inputs).sum(axis=1) + layer.bias, np.roll(layer.multiplier, shift))


CODE_SUMS: dict[str, Callable[[QGemm, Array], Array]] = {
    "partial sums saturate to int16, then the bias is added": lambda layer, x: saturated(layer, x, 16),
    "partial sums saturate to int8, then the bias is added": lambda layer, x: saturated(layer, x, 8),
    "m is that of the channel before": lambda layer, x: with_scale(layer, x, 1),
    "m is that of the channel after": lambda layer, x: with_scale(layer, x, -1),
    "two neighbouring terms have each other's inputs": with_exchanged_inputs,
}


@pytest.mark.parametrize("cause", CODE_SUMS)
def test_a_wrong_sum_or_scale_of_codes_is_named(cause: str) -> None:
    layer = qgemm(network((12, 6), per_column=True, zero_points=True))
    inputs = codes(layer)
    assert causes(found(layer, inputs, CODE_SUMS[cause](layer, inputs))) == [cause]


def test_a_fault_of_the_last_columns_is_named() -> None:
    layer = qgemm(network((12, 6), per_column=True, zero_points=True))
    inputs = codes(layer)
    actual = layer.prepare()(inputs)
    actual[:, 4:] = with_scale(layer, inputs, 1)[:, 4:]
    assert causes(found(layer, inputs, actual)) == ["m is that of the channel before, in the last columns only"]
    actual[:, :2] = with_scale(layer, inputs, 1)[:, :2]
    assert causes(found(layer, inputs, actual)) == ["m is that of the channel before, in some columns only"]


def test_a_fault_of_the_last_positions_is_named() -> None:
    layer = layer_of(node("Conv", "x", "w"), {"w": KERNELS}, {"x": IMAGES})
    x = IMAGES.reshape(30, -1)
    backwards = np.zeros((30, 3, 5, 5), F32)
    for c, i, j in reversed(list(np.ndindex(2, 2, 2))):
        backwards = backwards + IMAGES[:, c, None, i : i + 5, j : j + 5] * KERNELS[:, c, i, j][:, None, None]
    actual = layer.prepare()(x).reshape(30, 3, 25)
    actual[..., 21:] = backwards.reshape(30, 3, 25)[..., 21:]
    cause = "the terms are added from the last to the first, in the last positions of each channel only"
    assert causes(found(layer, x, actual.reshape(30, -1))) == [cause]


def hypothesis(cause: str, explained: int, contradicted: int) -> Hypothesis:
    return Hypothesis(cause, "right", explained, contradicted)


def test_a_cause_that_most_values_contradict_is_not_named() -> None:
    """One of 635 values explained and 1,039 contradicted: no help, and neither is one that changes every value."""
    seen = Observation(2000, 635, 0, 0, 0, 0, 0, 635, 40)
    few, all_changed = hypothesis("few", 1, 1039), hypothesis("all changed", 635, 1365)
    nothing = Diagnosis(0, "sums", 635, seen, (few, all_changed))
    assert nothing.ranked == ()
    assert "no known cause explains most of them" in nothing.text
    near = hypothesis("near", 600, 40)
    assert "nearest: near (600 of 635 explained" in Diagnosis(0, "sums", 635, seen, (few, near)).text


def test_the_same_causes_are_tried_for_all_inputs() -> None:
    """The parts of a run add up by their causes."""
    layer: Any = gemm()
    assert [f.cause for f in layer.fault_models(X)] == [f.cause for f in layer.fault_models(X[:1] * 0)]
    many, one = ([f.cause for f in placed_faults(layer, [x])] for x in (X, X[:1] * 0))
    assert many == one
