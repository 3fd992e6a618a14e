"""Every known mistake is named where it shows, judged on outputs that an independent implementation in C computed.

The right cause is always among those that explain everything, so that no wrong one ever stands alone.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.diagnosis import diagnose_finish
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.operators import contraction_faults
from harness.operators.qgemm import QGemm
from tests.support.diagnosis.layers import causes, codes, found, network, qgemm, quantize
from tests.support.diagnosis.mutants import Mutants
from tests.support.examples import examples

EXACT = "the product is not rounded to float32 before rounding to a code"
FIXED = "the product is Q31 fixed point"

# The functions of mutants.c, and how the diagnosis calls what they do.
REQUANTIZE = {
    "half away": "rounding is half away from zero",
    "half up": "rounding is half up",
    "half up, float": "rounding is half up by floorf(v + 0.5f)",
    "half down": "rounding is half down",
    "truncate": "rounding is truncation toward zero",
    "floor": "rounding is down (floor)",
    "ceil": "rounding is up (ceil)",
    "(int)(v + 0.5f)": "rounding is (int)(v + 0.5f) after the zero point is added",
    "zero point before rounding": "the zero point is added before rounding",
    "zero point left out": "the zero point is left out",
    "FMA with zero point": "the product is fused with the addition of the zero point (FMA)",
    "FMA into magic": f"{EXACT} (double precision, an FMA into a magic constant, or integer significands)",
    "product in double": f"{EXACT} (double precision, an FMA into a magic constant, or integer significands)",
    "24-bit significands": f"{EXACT} (double precision, an FMA into a magic constant, or integer significands)",
    "product in double, half away": f"{EXACT}, which is half away from zero",
    "all in double": "m and the product are in double precision",
    "all in double, half away": "m and the product are in double precision, and rounding is half away from zero",
    "m double, cast": "m is computed in double precision, then cast to float32",
    "m by reciprocal": "m = (a_scale * b_scale) * (1 / y_scale)",
    "m = a * (b / y)": "m = a_scale * (b_scale / y_scale)",
    "m = (a / y) * b": "m = (a_scale / y_scale) * b_scale",
    "m float16": "m is a float16",
    "m bytes swapped": "the bytes of m are in the other order",
    "dequantised, divided": "the sum is dequantised, then divided by y_scale",
    "dequantised, reciprocal": "the sum is dequantised, then multiplied by 1 / y_scale",
    "bias after scaling": "the bias is added after the scaling, in float32",
    "bias after scaling, fused": "the bias is added after the scaling, fused with it (FMA)",
    "bias before division": "the bias is added to the dequantised sum, in float32, before the division by y_scale",
    "gemmlowp, float m": f"{FIXED} with two roundings (gemmlowp), m from float32",
    "gemmlowp, double m": f"{FIXED} with two roundings (gemmlowp), m from double precision",
    "TFLite single rounding": f"{FIXED} with a single rounding, half up (TFLite), m from double precision",
    "Q31 of float m": f"{FIXED} from the float32 m, with a single rounding, half up",
    "Q15": "the product is Q15 fixed point (a 16-bit multiplier)",
    "saturate early, top": "saturation is one code early at the top: {top}",
    "saturate early, bottom": "saturation is one code early at the bottom: {bottom}",
    "saturate early, both": "saturation is one code early at the top and the bottom: {bottom} and {top}",
    "wrap": "wrap-around instead of saturation",
}
ACCUMULATE = {
    "bias left out": "the bias is left out",
    "bias bytes swapped": "the bytes of the bias are in the other order",
    "last input left out": "the last input is left out of the sum",
    "tail of 8 inputs left out": "the last {tail} inputs are left out of it",
    "input zero point 0": "the input zero point is left out",
    "input zero point 128": "the input zero point is 128",
    "input zero point -128": "the input zero point is -128",
    "weight zero point 0": "the weight zero point is left out",
    "weight zero point 128": "the weight zero point is 128",
    "input codes misread": "the input codes are read as {other_input}",
    "weights misread": "the weights are read as {other_weights}",
    "accumulator of 16 bits": "the accumulator has 16 bits and wraps around",
    "inputs of 8 bits": "the inputs less their zero point have 8 bits and wrap around",
    "weights of 8 bits": "the weights less their zero point have 8 bits and wrap around",
    "int16 pair saturation": "pairs of products saturate to int16",
    "weights transposed": "the weights are transposed{stored}",
    "weights not transposed": "the weights are transposed{read}",
}
SCALE = {
    "bias after scaling": "the bias is added after the scaling, in float32",
    "bias after scaling, fused": "the bias is added after the scaling, fused with it (FMA)",
    "m double, cast": "m is computed in double precision, then cast to float32",
    "alpha left out": "alpha is left out",
    "m = alpha * (a * b)": "m = alpha * (a_scale * b_scale) ...",
    "m float16": "m is a float16",
    "output float16": "the output is rounded to float16",
    "m bytes swapped": "the bytes of m are in the other order",
    "output bytes swapped": "the bytes of the output are in the other order",
    "product truncated": "the product is truncated toward zero",
}
QUANTIZE = {
    "half away": "rounding is half away from zero",
    "half up": "rounding is half up by floorf(v + 0.5f)",
    "truncate": "rounding is truncation toward zero",
    "(int)(v + 0.5f)": "rounding is (int)(v + 0.5f) after the zero point is added",
    "reciprocal": "multiplication by 1 / scale instead of division",
    "reciprocal, FMA": "multiplication by 1 / scale, fused with the addition of the zero point (FMA)",
    "division in double": "the division is in double precision",
    "zero point before rounding": "the zero point is added before rounding",
    "NaN to zero point": "NaN becomes the zero point",
    "int32 before saturation": "numbers beyond int32 become its lowest: saturation comes after the conversion to int32",
}
FAMILIES = {"requantize": REQUANTIZE, "accumulate": ACCUMULATE, "scale": SCALE, "quantize": QUANTIZE}

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"per_column": True},
    {"power_of_two": True},
    {"power_of_two": True, "zero_points": True, "weights": "uint8"},
    {"zero_points": True, "per_column": True},
    {"zero_points": True, "activations": "int8"},
    {"zero_points": True, "weights": "uint8"},
)
SHAPES = ((24, 24), (27, 22))


@pytest.fixture(scope="module")
def mutants(host: Profile, tmp_path_factory: pytest.TempPathFactory) -> Mutants:
    return Mutants.compile(host, tmp_path_factory.mktemp("mutants"))


def sums_near_ties(layer: QGemm, per_column: int = 150) -> Array:
    """Reachable accumulators, int64 (n, N), whose products lie closest to a half-way point, and as many others."""
    low, high = layer.accumulator_bounds()
    columns = []
    for column, m in enumerate(layer.multiplier.astype(np.float64)):
        acc = np.arange(max(low[column], -200_000), min(high[column], 200_000))
        distance = np.abs(acc * m - np.floor(acc * m) - 0.5)
        nearest = np.argpartition(distance, per_column)[:per_column]
        columns.append(np.concatenate([acc[nearest], acc[:: len(acc) // per_column][:per_column]]))
    return np.stack(columns, axis=1)


@cache
def layer_of(seed: int, shape: tuple[int, int], options: int) -> QGemm:
    return qgemm(network(shape, seed, **OPTIONS[options]))


def test_every_function_is_expected_by_a_name(mutants: Mutants) -> None:
    for family, names in FAMILIES.items():
        right, *others = mutants.names(family)
        assert right == "right"
        assert set(others) == set(names)


@examples(12)
@given(seed=st.integers(0, 1000), shape=st.sampled_from(SHAPES), options=st.integers(0, len(OPTIONS) - 1))
def test_what_is_wrong_behind_the_sum_is_named(
    mutants: Mutants, seed: int, shape: tuple[int, int], options: int
) -> None:
    layer = layer_of(seed, shape, options)
    acc = sums_near_ties(layer)
    right = mutants.requantize("right", layer, acc - layer.bias)
    info = np.iinfo(layer.dtype)
    for name, cause in REQUANTIZE.items():
        actual = mutants.requantize(name, layer, acc - layer.bias)
        if not np.array_equal(actual, right):
            diagnosis = diagnose_finish(1, layer, acc, right, actual)
            assert cause.format(top=info.max - 1, bottom=info.min + 1) in causes(diagnosis), name


@examples(12)
@given(seed=st.integers(0, 1000), shape=st.sampled_from(SHAPES), options=st.integers(0, len(OPTIONS) - 1))
def test_wrong_sums_are_named(mutants: Mutants, seed: int, shape: tuple[int, int], options: int) -> None:
    layer = layer_of(seed, shape, options)
    inputs = codes(layer, 500, seed)
    right = mutants.requantize("right", layer, mutants.accumulate("right", layer, inputs) - layer.bias)
    words = {
        "tail": layer.input.size % 8,
        "other_input": "uint8" if layer.input.dtype == np.int8 else "int8",
        "other_weights": "uint8" if layer.weights.dtype == np.int8 else "int8",
        "stored": "" if shape[0] == shape[1] else ": stored by inputs, read by outputs",
        "read": "" if shape[0] == shape[1] else ": stored by outputs, read by inputs",
    }
    for name, cause in ACCUMULATE.items():
        acc = mutants.accumulate(name, layer, inputs)
        actual = mutants.requantize("right", layer, acc - layer.bias)
        if not np.array_equal(actual, right):
            assert cause.format(**words) in causes(found(layer, inputs, actual)), name


@examples(10)
@given(seed=st.integers(0, 1000), alpha=st.sampled_from([1.0, 0.7]), per_column=st.booleans())
def test_wrong_float_outputs_are_named(mutants: Mutants, seed: int, alpha: float, *, per_column: bool) -> None:
    layer = qgemm(network((27, 22), seed, float_output=True, alpha=alpha, per_column=per_column))
    inputs = codes(layer, 300, seed)
    sums = mutants.accumulate("right", layer, inputs) - layer.bias
    right = mutants.scale("right", layer, sums)
    for name, cause in SCALE.items():
        actual = mutants.scale(name, layer, sums)
        if actual.tobytes() != right.tobytes():
            assert cause in causes(found(layer, inputs, actual)), name


@pytest.mark.parametrize(("activations", "zero_point"), [("uint8", 101), ("int8", -3)])
def test_wrong_quantisations_are_named(mutants: Mutants, activations: str, zero_point: int) -> None:
    layer = quantize(network((1, 6), activations=activations))
    layer = dataclasses.replace(layer, scale=np.float32(0.0236721), zero_point=zero_point)
    inputs = close_to_ties(layer.scale)
    for name, cause in QUANTIZE.items():
        assert cause in causes(found(layer, inputs, mutants.quantize(name, layer, inputs))), name


def close_to_ties(scale: np.float32) -> Array:
    """The middles between codes, some of their neighbours among the float32 numbers, specials; as one column."""
    middles = ((np.arange(-300, 300) + 0.5) * np.float64(scale)).astype(np.float32)
    near = (middles.view(np.int32)[:, None] + np.arange(-3, 4, dtype=np.int32)).view(np.float32).reshape(-1)
    specials = np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 3e38, -3e38, 1e-45, 2**31, 2**33])
    return np.concatenate([near, specials])[:, None]


def test_on_layers_where_it_shows_every_mistake_is_named(mutants: Mutants) -> None:
    """None of the tests above passes because nothing differs: each function does on some layer."""
    shown: set[str] = set()
    named: list[bool] = []
    for options in range(len(OPTIONS)):
        layer = layer_of(1, SHAPES[options % 2], options)
        acc = sums_near_ties(layer)
        right = mutants.requantize("right", layer, acc - layer.bias)
        info = np.iinfo(layer.dtype)
        for name, cause in REQUANTIZE.items():
            actual = mutants.requantize(name, layer, acc - layer.bias)
            if not np.array_equal(actual, right):
                shown.add(name)
                complete = causes(diagnose_finish(1, layer, acc, right, actual))
                named.append(cause.format(top=info.max - 1, bottom=info.min + 1) in complete)
    assert shown == set(REQUANTIZE)
    assert len(named) > 150
    assert all(named)


def test_sums_that_a_mistake_makes_too_large_wrap() -> None:
    """The bytes of -129 in the other order are the largest int32."""
    layer = qgemm(network((27, 22)))
    layer = dataclasses.replace(layer, bias=np.full(22, -129, np.int32))
    inputs = codes(layer, 300)
    sums = (inputs.astype(np.int64) - layer.a_zero_point) @ (layer.weights.astype(np.int64) - layer.weights_zero_point)
    wrapped = ((sums + 0x7FFFFFFF + 2**31) % 2**32 - 2**31).astype(np.float32)
    actual = clipped(np.rint(wrapped.astype(np.float64) * layer.multiplier), layer)
    assert causes(found(layer, inputs, actual)) == ["the bytes of the bias are in the other order"]


def test_a_multiplier_that_is_nan_gives_the_lowest_code() -> None:
    layer = qgemm(network((27, 22), zero_points=True))
    nan_swapped = np.array([0x0100C07F], np.uint32).view(np.float32)
    layer = dataclasses.replace(layer, multiplier=np.repeat(nan_swapped, 22))
    inputs = codes(layer, 300)
    assert "the bytes of m are in the other order" in causes(found(layer, inputs, np.zeros((300, 22), np.uint8)))


@pytest.mark.parametrize(
    ("multiplier", "bits", "expected"),
    [(0.5, 31, (1 << 30, 0)), (3.0, 31, (3 << 29, 2)), (1 - 2.0**-40, 31, (1 << 30, 1)), (0.3, 15, (19661, -1))],
)
def test_multipliers_are_quantised_to_so_many_bits(multiplier: float, bits: int, expected: tuple[int, int]) -> None:
    q, exponent = contraction_faults.quantised(np.array([multiplier]), bits)
    assert (q[0], exponent[0]) == expected


def test_a_mistake_that_no_table_has_is_not_called_another(mutants: Mutants) -> None:
    """Rounding to odd, a product in bfloat16, a weight that is one too large."""
    layer = layer_of(2, (27, 22), 0)
    inputs = codes(layer, 500)
    acc = mutants.accumulate("right", layer, inputs)
    v = acc.astype(np.float32) * layer.multiplier
    odd = np.floor(v) + (np.floor(v) % 2 == 0) * (v != np.floor(v))
    coarse = (v.view(np.uint32) & 0xFFFF0000).view(np.float32)
    weights = layer.weights.copy()
    weights[3, 4] += 1
    other = dataclasses.replace(layer, weights=weights)
    wrong_sums = mutants.requantize("right", other, mutants.accumulate("right", other, inputs) - layer.bias)
    for actual in (*(clipped(np.rint(u), layer) for u in (odd, coarse)), wrong_sums):
        assert causes(found(layer, inputs, actual)) == []


def clipped(values: Array, layer: QGemm) -> Array:
    info = np.iinfo(layer.dtype)
    return np.clip(values + layer.y_zero_point, info.min, info.max).astype(layer.dtype)
