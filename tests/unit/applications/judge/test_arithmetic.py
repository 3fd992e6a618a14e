"""Arithmetic of engines is named where it explains every difference, and only there.

The engines here are written in Python's integers and in double precision, without the code that explains them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.analysis.diagnosis import Case
from harness.applications.judge.explanation import Explanation
from harness.core.arrays import Array
from harness.model.graph import parse
from harness.operators.base import Layer
from harness.operators.contraction import Contraction
from tests.support import builders, judged
from tests.support.judged import Arithmetic

SCALES = "m from a float32 product of scales, divided in double precision"


def _multiplier(layer: Contraction, column: int) -> float:
    """The multiplier of LiteRT: the product of the scales in float32, the quotient in double precision."""
    assert layer.scales.y is not None
    return float(np.float32(layer.scales.a * layer.scales.b[column])) / float(layer.scales.y)


def _each(requantise: Callable[[int, float], int]) -> Arithmetic:
    """An engine that requantises each accumulator with its multiplier."""

    def arithmetic(layer: Layer, acc: Array) -> Array:
        assert isinstance(layer, Contraction)
        limits = np.iinfo(layer.dtype)
        codes = np.empty(acc.shape, layer.dtype)
        for place, value in np.ndenumerate(acc):
            code = requantise(int(value), _multiplier(layer, place[1])) + layer.y_zero_point
            codes[place] = min(max(code, limits.min), limits.max)
        return codes

    return arithmetic


def _fixed(multiplier: float) -> tuple[int, int]:
    """The multiplier as q * 2^-31 * 2^-shift, q of 31 bits."""
    fraction, exponent = math.frexp(multiplier)
    q = math.floor(fraction * 2**31 + 0.5)
    return (q, -exponent) if q < 2**31 else (q // 2, -exponent - 1)


def _half_away(numerator: int, shift: int) -> int:
    size = (abs(numerator) + (1 << shift >> 1)) >> shift
    return size if numerator >= 0 else -size


def gemmlowp(acc: int, multiplier: float) -> int:
    q, shift = _fixed(multiplier)
    nudge = 1 << 30 if acc * q >= 0 else 1 - (1 << 30)
    high = int(math.copysign(abs(acc * q + nudge) >> 31, acc * q + nudge))
    return _half_away(high, shift)


def cmsis(acc: int, multiplier: float) -> int:
    q, shift = _fixed(multiplier)
    return _half_away((acc * q + (1 << 30)) >> 31, shift)


def ruy(acc: int, multiplier: float) -> int:
    q, shift = _fixed(multiplier)
    return (((acc * q + (1 << 30)) >> 31) + (1 << shift >> 1)) >> shift


def single(acc: int, multiplier: float) -> int:
    q, shift = _fixed(multiplier)
    return (acc * q + (1 << (30 + shift))) >> (31 + shift)


def power_of_two(acc: int, multiplier: float) -> int:
    return math.floor(acc * 2.0 ** round(math.log2(multiplier)) + 0.5)


def truncated(acc: int, multiplier: float) -> int:
    return math.trunc(acc * multiplier)


INTEGERS = {
    gemmlowp: f"the product is Q31 fixed point with two roundings (gemmlowp), {SCALES}",
    cmsis: f"the product is Q31 fixed point with two roundings, half up and half away from zero (CMSIS-NN), {SCALES}",
    ruy: f"the product is Q31 fixed point with two roundings, both half up (ruy on x86), {SCALES}",
    single: f"the product is Q31 fixed point with a single rounding, half up (TFLite), {SCALES}",
    power_of_two: "m is the nearest power of two, rounding half up",
    truncated: "rounding is truncation toward zero",
}


@pytest.mark.parametrize("engine", INTEGERS, ids=lambda engine: engine.__name__)
def test_fixed_point_of_all_layers_is_one_arithmetic(engine: Callable[[int, float], int], tmp_path: Path) -> None:
    network = judged.network(11, 6, 14, 12, activations="int8", power_of_two=engine is single)
    values = judged.vectors(network, 400)
    arithmetic = _each(engine)
    dumps = judged.activations(network, values, dict.fromkeys(("layer_0", "layer_1"), arithmetic))
    document = judged.judge(network, tmp_path, dumps, values)
    assert document.verdict == "differs"
    [entry] = document.arithmetic
    assert INTEGERS[engine] in (entry.cause, *entry.also)
    layers = judged.by_name(document)
    assert entry.values == sum(layers[name].unequal for name in entry.layers)
    for name in entry.layers:
        assert {cause.explained for cause in layers[name].causes} == {layers[name].unequal}
        assert {cause.contradicted for cause in layers[name].causes} == {0}
    assert document.unexplained == []


def _half_away_with_ties(layer: Layer, acc: Array) -> Array:
    assert isinstance(layer, Contraction)
    v = (acc.astype(np.float32) * layer.multiplier).astype(np.float64)
    codes = np.trunc(v + np.copysign(0.5, v)) + layer.y_zero_point
    return np.clip(codes, -128, 127).astype(np.int8)


def test_rounding_half_away_is_named_for_outputs_alone(tmp_path: Path) -> None:
    network = judged.network(5, 6, 14, 12, activations="int8", power_of_two=True)
    values = judged.vectors(network, 400)
    dumps = judged.activations(network, values, dict.fromkeys(("layer_0", "layer_1"), _half_away_with_ties))
    document = judged.judge(network, tmp_path, {"layer_1_out": dumps["layer_1_out"]}, values)
    [layer] = document.layers
    assert layer.with_layers == ["quantize", "layer_0"]
    assert layer.own > 0
    [entry] = document.arithmetic
    assert entry.cause == "rounding is half away from zero"
    assert entry.values == layer.own


def test_a_cause_that_explains_a_part_is_no_explanation(tmp_path: Path) -> None:
    network = judged.network(5, 6, 14, 12, activations="int8", power_of_two=True)
    values = judged.vectors(network, 400)

    def mixed(layer: Layer, acc: Array) -> Array:
        codes = _half_away_with_ties(layer, acc)
        codes[::7, 1] = np.where(codes[::7, 1] > 0, codes[::7, 1] - 3, codes[::7, 1] + 3)
        return codes

    dumps = judged.activations(network, values, {"layer_0": mixed})
    document = judged.judge(network, tmp_path, dumps, values)
    layer = judged.by_name(document)["layer_0"]
    assert (document.arithmetic, document.unexplained, layer.causes) == ([], ["layer_0"], [])
    assert layer.nearest is not None
    assert 0 < layer.nearest.explained < layer.nearest.checked == layer.own


@pytest.mark.slow
def test_every_differing_value_is_checked_behind_the_vectors_of_the_search(tmp_path: Path) -> None:
    """The last vector contradicts what explains all others."""
    network = judged.network(5, 6, 40, activations="int8", power_of_two=True)
    values = judged.vectors(network, 12_000)
    dumps = judged.activations(network, values, {"layer_0": _half_away_with_ties})
    assert [entry.layers for entry in judged.judge(network, tmp_path, dumps, values).arithmetic] == [["layer_0"]]
    dumps["layer_0_out"][-1, 0] ^= 2
    document = judged.judge(network, tmp_path, dumps, values)
    layer = judged.by_name(document)["layer_0"]
    assert (document.arithmetic, document.unexplained) == ([], ["layer_0"])
    assert layer.nearest.cause == "rounding is half away from zero"
    assert layer.nearest.explained == layer.own - 1 == layer.nearest.checked - 1


def test_the_right_one_of_many_causes_of_a_single_value_stays() -> None:
    network = judged.network(5, 6, 14, activations="int8", power_of_two=True)
    layer = network.layers[1]
    values = judged.vectors(network, 600)
    inputs = network.layers[0].prepare()(values)
    assert layer.sums is not None
    right, actual = layer.prepare()(inputs), _half_away_with_ties(layer, layer.sums.accumulate()(inputs))
    first = int((right != actual).any(axis=1).argmax())
    explanation = Explanation()
    for rows in (slice(first, first + 1), slice(first + 1, None)):
        explanation.add(Case(1, layer, (inputs[rows],), right[rows], actual[rows]), None)
    causes = [hypothesis.cause for hypothesis in explanation.complete]
    assert "rounding is half away from zero" in causes
    assert explanation.checked == np.count_nonzero(right != actual)
    assert len(causes) < 8


def test_an_arithmetic_is_contradicted_by_layers_without_it(tmp_path: Path) -> None:
    network = judged.network(5, 6, 14, 12, activations="int8", power_of_two=True)
    values = judged.vectors(network, 400)
    dumps = judged.activations(network, values, {"layer_0": _half_away_with_ties})
    [entry] = judged.judge(network, tmp_path, dumps, values).arithmetic
    assert (entry.layers, entry.contradicted_in) == (["layer_0"], ["layer_1"])


def _saturated(layer: Layer, acc: Array) -> Array:
    assert isinstance(layer, Contraction)
    codes: Array = np.maximum(layer.finish()(acc), -127)
    return codes


def _symmetric(layer: Layer, acc: Array) -> Array:
    """Codes of a symmetric int8, dequantised and quantised again with the zero point of the model."""
    assert isinstance(layer, Contraction)
    v = (acc.astype(np.float32) * layer.multiplier).astype(np.float64)
    zero_point = layer.y_zero_point
    step = max(128 + zero_point, 127 - zero_point) / 127
    codes = np.rint(np.clip(np.rint(v / step), -127, 127) * step) + zero_point
    return np.clip(codes, -128, 127).astype(np.int8)


@pytest.mark.parametrize(
    ("arithmetic", "cause"),
    [
        (_saturated, "saturation is one code early at the bottom: -127"),
        (_symmetric, "codes are symmetric int8 from -127 (TensorRT)"),
    ],
)
def test_other_ranges_are_named(arithmetic: Arithmetic, cause: str, tmp_path: Path) -> None:
    network = judged.network(5, 6, 14, activations="int8", zero_points=arithmetic is _symmetric)
    values = judged.vectors(network, 3000)
    dumps = judged.activations(network, values, {"layer_0": arithmetic})
    [entry] = judged.judge(network, tmp_path, dumps, values).arithmetic
    assert cause in (entry.cause, *entry.also)


def _engine_of_floats(short: Callable[[Array], Array], weights: Array, bias: Array, inputs: Array) -> Array:
    acc = np.broadcast_to(bias, (len(inputs), len(bias)))
    for a, w in zip(short(inputs).T, short(weights), strict=True):
        acc = (acc + (a[:, None] * w).astype(acc.dtype)).astype(acc.dtype)
    return acc.astype(np.float32)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("float16", "the factors are float16, the sums float32"),
        ("float16 sums", "all numbers and sums are float16"),
        ("TF32", "the factors are TF32, the sums float32"),
    ],
)
def test_short_floats_are_named(name: str, cause: str, tmp_path: Path) -> None:
    network = judged.images()
    layer = network.layers[4]
    inputs = judged.activations(network, judged.vectors(network, 40))["flat"]
    weights, bias = layer.weights, layer.bias  # type: ignore[attr-defined]
    if name == "float16 sums":
        scores = _engine_of_floats(lambda x: x.astype(np.float16), weights, bias.astype(np.float16), inputs)
    elif name == "TF32":
        scores = _engine_of_floats(lambda x: _significand(x, 11), weights, bias, inputs)
    else:
        scores = _engine_of_floats(lambda x: x.astype(np.float16).astype(np.float32), weights, bias, inputs)
    document = judged.judge(network, tmp_path, {"flat": inputs, "scores": scores}, None)
    named = [other for entry in document.arithmetic for other in (entry.cause, *entry.also)]
    assert cause in named
    assert judged.by_name(document)["dense_1"].unequal


def test_flushed_subnormals_are_named(tmp_path: Path) -> None:
    network = judged.images()
    sums = np.random.default_rng(1).normal(0, 1e-38, (20, 4, 4, 4)).astype(np.float32)
    positive = np.where(sums < np.finfo(np.float32).tiny, 0, sums).astype(np.float32)
    document = judged.judge(network, tmp_path, {"sums_1": sums, "positive": positive}, None)
    [entry] = document.arithmetic
    assert "subnormal results are flushed to zero" in (entry.cause, *entry.also)
    assert entry.values == np.count_nonzero((sums > 0) & (positive == 0))


def _significand(values: Array, bits: int) -> Array:
    fraction, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.rint(fraction * 2**bits), exponent - bits).astype(np.float32)


def _fma(acc: Array, a: Array, w: Array) -> Array:
    """The sum of acc and a product, rounded once: of small integers times 2^-20 in float64, which holds both."""
    return (acc.astype(np.float64) + a.astype(np.float64) * w).astype(np.float32)


def test_sums_of_blocks_of_terms_are_named(tmp_path: Path) -> None:
    """As ONNX Runtime adds long sums: 300 terms in blocks of 256, each from 0 on, added to the bias."""
    rng = np.random.default_rng(2)
    weights = rng.integers(-(1 << 11), 1 << 11, (300, 4)).astype(np.float32) * np.float32(2**-10)
    bias = rng.normal(0, 1, 4).astype(np.float32)
    node = onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="dense")
    model = builders.make_model([node], {"w": weights, "b": bias}, {"y": ("float32", 4)}, width=300)
    network = parse(model.SerializeToString(), "long")
    values = (rng.integers(-(1 << 11), 1 << 11, (20, 300)) * 2.0**-10).astype(np.float32)
    total = np.broadcast_to(bias, (20, 4))
    for start in (0, 256):
        block = np.zeros((20, 4), np.float32)
        for k in range(start, min(start + 256, 300)):
            block = _fma(block, values[:, k : k + 1], weights[k])
        total = total + block
    document = judged.judge(network, tmp_path, {"y": total}, values)
    assert document.verdict == "within bound"
    [entry] = document.arithmetic
    cause = "multiplications and additions are contracted (FMA) within blocks of 256 terms, which are added to the bias"
    assert cause in (entry.cause, *entry.also)
