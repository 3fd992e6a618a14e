"""Every known mistake is recognised in data that was made by another implementation of it, and no other is claimed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from harness import diagnosis
from harness.diagnosis import Diagnosis, Hypothesis, diagnose
from harness.network import Add, Array, Layer, Network, QGemm, QuantizeLinear
from harness.reference.specification import operator
from tests import builders
from tests.kernels.board_program import parse

HALF = Fraction(1, 2)


ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "round half away from zero": lambda v: math.floor(v + HALF) if v > 0 else math.ceil(v - HALF),
    "round half up": lambda v: math.floor(v + HALF),
    "round half down": lambda v: math.ceil(v - HALF),
    "truncation toward zero": math.trunc,
    "rounding down (floor)": math.floor,
    "rounding up (ceil)": math.ceil,
}


def network(activations: str = "uint8", *, float_output: bool = False, power_of_two: bool = True) -> Network:
    model = builders.random_network(
        np.random.default_rng(4),
        (7, 6),
        activations=activations,
        power_of_two=power_of_two,
        zero_points=True,
        float_output=float_output,
    )
    return parse(model)


def qgemm(net: Network) -> QGemm:
    layer = net.layers[1]
    assert isinstance(layer, QGemm)
    return layer


def quantize(net: Network) -> QuantizeLinear:
    layer = net.layers[0]
    assert isinstance(layer, QuantizeLinear)
    return layer


def codes(layer: Layer, count: int = 800) -> Array:
    """Random inputs of a layer that reads codes."""
    info = np.iinfo(layer.input_dtype)
    shape = (count, layer.input_width)
    return np.random.default_rng(5).integers(info.min, info.max + 1, shape).astype(layer.input_dtype)


def numbers(layer: QuantizeLinear) -> Array:
    """Inputs on every quarter of a code, beyond both ends of the range."""
    steps = np.arange(-1120, 1121) / 4
    columns = np.stack([np.roll(steps, shift) for shift in range(layer.input_width)], axis=1)
    return (columns * float(layer.scale)).astype(np.float32)


def accumulators(layer: QGemm, inputs: Array) -> Array:
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    return (inputs.astype(np.int64) - layer.a_zero_point) @ weights + layer.bias


def products(layer: QGemm, inputs: Array) -> Array:
    return accumulators(layer, inputs).astype(np.float32) * layer.multiplier


def computed(v: Array, layer: QGemm | QuantizeLinear, rounding: Callable[[Fraction], int]) -> Array:
    """saturate(rounding(v) + zero point), one value after the other in exact arithmetic."""
    zero_point = layer.y_zero_point if isinstance(layer, QGemm) else layer.zero_point
    info = np.iinfo(layer.dtype)
    values = [min(max(rounding(Fraction(float(x))) + zero_point, info.min), info.max) for x in v.flat]
    return np.array(values, layer.dtype).reshape(v.shape)


def wrapped(values: Array, dtype: np.dtype[np.generic]) -> Array:
    return values.astype(np.int64).astype(np.uint8).view(dtype)


def named(layer: Layer, inputs: Array, actual: Array) -> set[str]:
    """The hypotheses that explain the whole difference."""
    found = diagnose(3, layer, [inputs], operator(layer)(inputs), actual)
    assert found.layer == 3
    assert found.differing > 0
    return {h.name for h in found.hypotheses if h.explained == found.differing and not h.contradicted}


def only(names: set[str], expected: str) -> bool:
    return len(names) == 1 and next(iter(names)).startswith(expected)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", ROUNDINGS)
def test_a_wrong_rounding_of_a_product_is_recognised(name: str, activations: str) -> None:
    layer = qgemm(network(activations))
    inputs = codes(layer)
    actual = computed(products(layer, inputs), layer, ROUNDINGS[name])
    assert only(named(layer, inputs, actual), name)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", ROUNDINGS)
def test_a_wrong_rounding_of_an_input_is_recognised(name: str, activations: str) -> None:
    layer = quantize(network(activations))
    inputs = numbers(layer)
    actual = computed(inputs / layer.scale, layer, ROUNDINGS[name])
    assert only(named(layer, inputs, actual), name)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_mistakes_with_zero_point_and_range_are_recognised(activations: str) -> None:
    layer = quantize(network(activations))
    layer = dataclasses.replace(layer, zero_point=layer.zero_point | 1)  # only an odd one moves ties
    inputs = numbers(layer)
    info, zero_point = np.iinfo(layer.dtype), layer.zero_point
    v = (inputs / layer.scale).astype(np.float64)
    right = np.rint(v) + zero_point

    def clipped(values: Array) -> Array:
        return np.clip(values, info.min, info.max).astype(layer.dtype)

    assert only(named(layer, inputs, clipped(np.rint(v + zero_point))), "zero point added before rounding")
    assert only(named(layer, inputs, clipped(np.rint(v))), "zero point left out")
    assert only(named(layer, inputs, np.minimum(clipped(right), info.max - 1).astype(layer.dtype)), "saturation one")
    assert only(named(layer, inputs, wrapped(right, layer.dtype)), "wrap-around")


def close_to_ties(scale: np.float32) -> Array:
    """The middles between codes and some of their neighbours among the float32 numbers, as one column."""
    middles = ((np.arange(-300, 300) + 0.5) * np.float64(scale)).astype(np.float32)
    bits = middles.view(np.int32)[:, None] + np.arange(-3, 4, dtype=np.int32)
    return bits.view(np.float32).reshape(-1, 1)


def test_divisions_that_are_no_float32_divisions_are_recognised() -> None:
    layer = dataclasses.replace(
        quantize(network()), scale=np.float32(0.0236721), zero_point=100, input_width=1, width=1
    )
    inputs = close_to_ties(layer.scale)
    reciprocal = computed(inputs * (np.float32(1) / layer.scale), layer, round)
    double = computed(inputs.astype(np.float64) / np.float64(layer.scale), layer, round)
    assert only(named(layer, inputs, reciprocal), "multiplication by 1 / scale")
    assert only(named(layer, inputs, double), "division in double precision")


def test_nan_and_infinity_are_no_contradiction() -> None:
    layer = quantize(network())
    inputs = numbers(layer)
    inputs[:6, 0] = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -0.0]
    with np.errstate(over="ignore"):
        v = np.clip(np.nan_to_num(inputs / layer.scale, nan=-1e9), -1e9, 1e9)
    assert only(named(layer, inputs, computed(v, layer, math.floor)), "rounding down")


def near_tie_layer() -> tuple[QGemm, Array]:
    """A layer that passes the accumulator through, and inputs where float32 and exact products round differently."""
    layer = qgemm(network(power_of_two=False))
    weights = np.zeros_like(layer.weights)
    weights[0], weights[1] = 1, 127
    layer = dataclasses.replace(
        layer,
        weights=weights,
        weights_zero_point=np.zeros_like(layer.weights_zero_point),
        bias=np.zeros_like(layer.bias),
        multiplier=np.linspace(0.0031, 0.0047, layer.width).astype(np.float32),
        a_zero_point=0,
        y_zero_point=61,
    )
    inputs = np.zeros((127 * 256, layer.input_width), np.uint8)
    inputs[:, 0], inputs[:, 1] = np.tile(np.arange(127), 256), np.repeat(np.arange(256), 127)
    return layer, inputs


def test_products_that_are_not_rounded_to_float32_are_recognised() -> None:
    layer, inputs = near_tie_layer()
    exact = accumulators(layer, inputs) * layer.multiplier.astype(np.float64)
    in_double = np.clip(np.rint(exact) + 61, 0, 255).astype(np.uint8)
    fused = np.clip(np.rint((exact + 61).astype(np.float32)), 0, 255).astype(np.uint8)
    assert "product in double precision, not rounded to float32" in named(layer, inputs, in_double)
    assert "fused multiply-add of product and zero point" in named(layer, inputs, fused)


@pytest.mark.parametrize("float_output", [False, True])
def test_wrong_sums_are_recognised(*, float_output: bool) -> None:
    layer = qgemm(network(float_output=float_output, power_of_two=False))
    inputs = codes(layer)
    right = layer.weights.astype(np.int64), inputs.astype(np.int64)

    def outputs(acc: Array) -> Array:
        v = acc.astype(np.float32) * layer.multiplier
        return v if float_output else computed(v, layer, round)

    def summed(weights: Array, activations: Array, za: int, zb: Array, bias: Array) -> Array:
        return outputs((activations - za) @ (weights - zb) + bias)

    weights, activations = right
    za, zb, bias = layer.a_zero_point, layer.weights_zero_point, layer.bias
    none = np.zeros_like(bias)
    assert only(named(layer, inputs, summed(weights, activations, za, zb, none)), "bias left out")
    assert only(named(layer, inputs, summed(weights, activations, 0, zb, bias)), "input zero point left out")
    assert only(named(layer, inputs, summed(weights, activations, za, none, bias)), "weight zero point left out")
    last = summed(weights[:-1], activations[:, :-1], za, zb, bias)
    assert only(named(layer, inputs, last), "last input left out of the sum")


def test_int16_saturation_of_pairs_is_recognised() -> None:
    layer = qgemm(network(power_of_two=False))
    rng = np.random.default_rng(9)
    layer = dataclasses.replace(layer, weights=rng.choice([-128, -90, 3, 127], layer.weights.shape).astype(np.int8))
    inputs = codes(layer)
    acc = accumulators(layer, inputs)
    for vector, column in np.ndindex(acc.shape):
        terms = [int(a) * int(b) for a, b in zip(inputs[vector], layer.weights[:, column], strict=True)]
        sums = [sum(terms[k : k + 2]) for k in range(0, len(terms), 2)]
        acc[vector, column] += sum(min(max(s, -32768), 32767) - s for s in sums)
    actual = computed(acc.astype(np.float32) * layer.multiplier, layer, round)
    assert only(named(layer, inputs, actual), "int16 saturation of pairs of products")


# Sums.


def total(*, addend: Array | None = None) -> Add:
    """A sum of four columns."""
    tensors = ("a", "b") if addend is None else ("a",)
    float32 = np.dtype(np.float32)
    return Add("sum", "sum", "Add", tensors, "y", 4, float32, 4, float32, addend)


def terms(count: int = 500) -> tuple[Array, Array]:
    """Two terms of like size, whose sums are rounded more often than not."""
    a, b = np.random.default_rng(6).normal(0, 1, (2, count, 4)).astype(np.float32)
    return a, b / np.float32(7)


def exact_sums(a: Array, b: Array) -> list[Fraction]:
    return [Fraction(float(x)) + Fraction(float(y)) for x, y in zip(a.flat, b.flat, strict=True)]


def truncated(value: Fraction) -> np.float32:
    """The float32 next to the value, or on it, on the side of zero."""
    nearest = np.float32(float(value))  # the double is exact: terms of like size
    return np.nextafter(nearest, np.float32(0)) if abs(Fraction(float(nearest))) > abs(value) else nearest


def explaining(layer: Add, inputs: tuple[Array, ...], actual: Array) -> set[str]:
    """The hypotheses that explain the whole difference of a sum."""
    found = diagnose(3, layer, inputs, operator(layer)(*inputs), actual)
    assert found.differing > 0
    return {h.name for h in found.hypotheses if h.explained == found.differing and not h.contradicted}


def test_wrong_additions_are_recognised() -> None:
    layer, (a, b) = total(), terms()
    rounded_down = np.array([truncated(value) for value in exact_sums(a, b)]).reshape(a.shape)
    assert explaining(layer, (a, b), b) == {"first term left out"}
    assert explaining(layer, (a, b), a) == {"second term left out"}
    assert explaining(layer, (a, b), a - b) == {"second term subtracted instead of added"}
    assert explaining(layer, (a, b), rounded_down) == {"truncation toward zero instead of rounding"}


def test_wrong_additions_of_a_constant_are_recognised() -> None:
    a, _ = terms()
    layer = total(addend=np.array([0.5, -0.25, 3, 1e-3], np.float32))
    assert explaining(layer, (a,), a) == {"second term left out"}


def test_subnormal_sums_that_are_flushed_to_zero_are_recognised() -> None:
    a, b = (np.float32([[1.5e-38, 1.0, -1.2e-38, 2.0]]), np.float32([[-1.2e-38, 1.0, 1.5e-38, -2.0]]))
    assert explaining(total(), (a, b), np.float32([[0, 2, 0, 0]])) == {"subnormal sum flushed to zero"}


def test_terms_that_were_not_rounded_before_are_not_explained_wrongly() -> None:
    """As by a fused multiply-add: the unrounded product is not among what the layer was fed."""
    a, b = terms()
    fused = (a.astype(np.float64) + b.astype(np.float64) * (1 + 2.0**-26)).astype(np.float32)
    found = diagnose(3, total(), (a, b), a + b, fused)
    assert 0 < found.differing < a.size
    assert not found.text.startswith("all ")


# What is claimed.


def test_the_text_names_the_cause_and_the_evidence() -> None:
    layer = qgemm(network())
    inputs = codes(layer)
    actual = computed(products(layer, inputs), layer, math.floor)
    expected = operator(layer)(inputs)
    count = (actual != expected).sum()
    found = diagnose(1, layer, [inputs], expected, actual)
    assert found.text == (
        f"all {count} differing values looked at are explained by: rounding down (floor) instead of to nearest"
    )


def test_nothing_is_claimed_of_noise() -> None:
    layer = qgemm(network())
    inputs = codes(layer)
    expected = operator(layer)(inputs)
    noise = np.random.default_rng(10).integers(0, 256, expected.shape).astype(np.uint8)
    found = diagnose(1, layer, [inputs], expected, noise)
    assert found.text.startswith("no known cause explains all of them; nearest: ")
    assert all(h.contradicted for h in found.hypotheses)


def test_nothing_is_claimed_of_a_value_that_no_mistake_gives() -> None:
    layer = qgemm(network())
    inputs = codes(layer)
    expected = operator(layer)(inputs)
    inside = np.argwhere((expected > 100) & (expected < 120))[0]
    actual = expected.copy()
    actual[tuple(inside)] ^= 0x80
    text = diagnose(1, layer, [inputs], expected, actual).text
    assert text.startswith("no known cause explains any of the differing values")


def test_a_cause_that_should_have_changed_more_is_not_claimed() -> None:
    """Half of the ties rounded away: the others contradict."""
    layer = qgemm(network())
    inputs = codes(layer)
    expected = operator(layer)(inputs)
    actual = computed(products(layer, inputs), layer, ROUNDINGS["round half away from zero"])
    vectors = np.flatnonzero((actual != expected).any(axis=1))
    actual[vectors[::2]] = expected[vectors[::2]]
    found = diagnose(1, layer, [inputs], expected, actual)
    assert found.text.startswith("no known cause explains all of them; nearest: round half away from zero")
    assert found.ranked[0].explained == found.differing
    assert found.ranked[0].contradicted > 0


@pytest.mark.parametrize("argmax", [False, True])
def test_layers_without_known_mistakes_are_left_open(*, argmax: bool) -> None:
    model = builders.random_network(np.random.default_rng(4), (3, 4), dequantize=True, argmax=argmax)
    layer = parse(model).layers[-1]
    inputs = np.zeros((5, layer.input_width), layer.input_dtype)
    expected = np.zeros((5, layer.width), layer.dtype)
    found = diagnose(3, layer, [inputs], expected, expected + expected.dtype.type(1))
    assert found.hypotheses == ()
    assert found.differing == expected.size
    assert found.text.startswith("no known cause explains any of the differing values")


def test_only_so_many_vectors_are_looked_at() -> None:
    layer = qgemm(network())
    limit = diagnosis.VECTORS_LOOKED_AT
    inputs = codes(layer, 2 * limit + 100)
    actual = computed(products(layer, inputs[: limit + 50]), layer, math.floor)
    expected = operator(layer)(inputs)
    actual = np.concatenate([actual, expected[limit + 50 :]])
    found = diagnose(1, layer, [inputs], expected, actual)
    assert (actual != expected)[:limit].sum() <= found.differing <= limit * layer.width
    best = found.ranked[0]
    assert best.name.startswith("rounding down")
    assert best.explained == found.differing
    assert best.contradicted > 0  # by the right vectors, of which as many are looked at


# Findings of several chunks.

A = Diagnosis(2, 10, (Hypothesis("a", 10, 0), Hypothesis("b", 4, 3), Hypothesis("c", 0, 9)))
B = Diagnosis(2, 5, (Hypothesis("a", 4, 1), Hypothesis("b", 5, 0), Hypothesis("c", 0, 0)))


def test_findings_of_one_layer_add_up() -> None:
    assert Diagnosis(2, 15, (Hypothesis("a", 14, 1), Hypothesis("b", 9, 3), Hypothesis("c", 0, 9))) == A + B
    assert A.text == "all 10 differing values looked at are explained by: a"
    assert (A + B).text == "no known cause explains all of them; nearest: a (14 of 15 explained, 1 contradicted)"


def test_of_different_layers_the_earlier_counts() -> None:
    later = dataclasses.replace(B, layer=5)
    assert A + later == A
    assert later + A == A


def test_hypotheses_are_ranked_by_what_contradicts_them_and_the_useless_left_out() -> None:
    assert [h.name for h in A.ranked] == ["a", "b"]
    assert [h.name for h in B.ranked] == ["b", "a"]


def test_causes_that_explain_everything_are_all_named() -> None:
    both = Diagnosis(0, 3, (Hypothesis("a", 3, 0), Hypothesis("b", 3, 0)))
    assert both.text == "all 3 differing values looked at are explained by: a; or b"
