"""Fault models of contractions: another multiplier, another product, another sum.

    acc[n] = bias[n] + sum_k (a[k] - za) * (weights[k, n] - zb[n]);  v = float32(acc) * m;  y = nearest code of v, or v

Products in integers alone, as libraries without floating point make them, write m as q * 2^(exponent - bits) with an
integer q of `bits` bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.fault_models import (
    Codes,
    FaultModel,
    PlacedFault,
    Real,
    Single,
    as_other_type,
    half_away,
    half_up,
    other_zero_points,
    tails,
    through_float16,
    toward_zero,
    wrong_roundings,
)
from harness.operators.scaled_sum import ScaledSum, Scales
from harness.operators.softfloat import Integers

PRODUCT = "float32(acc) * m, rounded to float32"
SUM = "bias + sum of (a - a_zero_point) * (weight - weight_zero_point)"
SATURATED_TERMS = 1 << 33
"""Most products that are added one after the other."""
INSIDE_SUM = "the bias is part of the integer sum"


def fault_models(layer: ScaledSum, inputs: Array) -> Iterator[FaultModel]:
    """Yield the fault models of the whole layer for its input codes (vectors, K)."""
    yield from finishing_fault_models(layer, layer.accumulate()(inputs))
    groups = [
        _wrong_sums(_Sums.of(layer, channels), patch) for channels, patch in layer.patches(inputs, layer.a_zero_point)
    ]
    for of_groups in zip(*groups, strict=True):
        cause, right, _ = of_groups[0]
        wrong = layer.arranged(np.concatenate([acc for _, _, acc in of_groups], axis=1))
        yield FaultModel(cause, right, finish(layer, wrong))


def exchanged_terms(layer: ScaledSum, inputs: Array) -> PlacedFault:
    """Return two neighbouring inputs of each sum that are multiplied with the weights of each other."""
    groups = [(channels, patch.astype(np.int64)) for channels, patch in layer.patches(inputs, layer.a_zero_point)]
    weights, right = layer.weights.astype(np.int64) - layer.weights_zero_point, layer.accumulate()(inputs)

    def output(place: int) -> Array:
        steps = [
            (patch[:, place, None] - patch[:, place + 1, None]) * (weights[place + 1] - weights[place])[channels]
            for channels, patch in groups
        ]
        return finish(layer, right + layer.arranged(np.concatenate(steps, axis=1)))

    return PlacedFault("two neighbouring terms have each other's inputs", SUM, layer.weights.shape[0] - 1, output)


@dataclass(frozen=True, eq=False)
class _Sums:
    """The constants of the sums of some channels; each sum reads a patch of K inputs."""

    weights: Array
    weights_zero_point: npt.NDArray[np.int32]
    bias: npt.NDArray[np.int32]
    a_zero_point: int

    @classmethod
    def of(cls, layer: ScaledSum, channels: slice) -> _Sums:
        return cls(
            layer.weights[:, channels],
            layer.weights_zero_point[channels],
            layer.bias[channels],
            layer.a_zero_point,
        )

    @property
    def depth(self) -> int:
        return len(self.weights)


def finishing_fault_models(layer: ScaledSum, acc: Integers) -> Iterator[FaultModel]:
    """Yield the fault models of the steps after the sum, for accumulators int64 (vectors, size)."""
    for model in _wrong_finishes(layer, layer.by_channel(acc)):
        yield model._replace(output=layer.arranged(model.output))


def _wrong_finishes(layer: ScaledSum, acc: Integers) -> Iterator[FaultModel]:
    """Yield them for accumulators int64 (n, N), one channel a column."""
    if layer.dtype != np.float32:
        yield from wrong_roundings(product(layer, acc), _codes(layer))
        yield from _wrong_products_to_codes(layer, acc)
    else:
        yield from _wrong_products(layer, acc)
    for cause, multiplier in _wrong_multipliers(layer.scales):
        yield FaultModel(cause, layer.scales.formula, _scaled(layer, acc.astype(np.float32) * multiplier))
    for size, towards in (("large", np.inf), ("small", 0)):
        near = np.nextafter(layer.multiplier, np.float32(towards))
        wrong = _scaled(layer, acc.astype(np.float32) * near)
        yield FaultModel(f"m is one unit in the last place too {size}", layer.scales.formula, wrong)
    if (layer.multiplier != layer.multiplier[0]).any():
        for name, shift in (("before", 1), ("after", -1)):
            wrong = _scaled(layer, acc.astype(np.float32) * np.roll(layer.multiplier, shift))
            yield FaultModel(f"m is that of the channel {name}", "each channel has its own", wrong)
    divided = acc.astype(np.float32) / (np.float32(1) / layer.multiplier)
    yield FaultModel("division by 1 / m", PRODUCT, _scaled(layer, divided))
    swapped = acc.astype(np.float32) * layer.multiplier.byteswap()
    yield FaultModel("the bytes of m are in the other order", "little endian", _scaled(layer, swapped))


def product(layer: ScaledSum, acc: Integers) -> Single:
    """Return the number v = float32(acc) * m, for one channel a column."""
    v: Single = acc.astype(np.float32) * layer.multiplier
    return v


def clamped_product(layer: ScaledSum, acc: Integers) -> Single:
    """Return the same, clamped to the range of the output's codes."""
    return layer.arranged(_codes(layer).clamp(product(layer, layer.by_channel(acc))))


def finish(layer: ScaledSum, acc: Integers) -> Array:
    """Return the output as specified for accumulators of any size, wrapped to int32."""
    wrapped = acc.astype(np.int32).astype(np.int64)
    return layer.arranged(_scaled(layer, product(layer, layer.by_channel(wrapped))))


def _codes(layer: ScaledSum) -> Codes:
    return Codes(layer.y_zero_point, layer.dtype)


def _scaled(layer: ScaledSum, v: Array) -> Array:
    """Return the output for the product v; NaN becomes the lowest code."""
    if layer.dtype == np.float32:
        return v.astype(np.float32)
    return _codes(layer).nearest(np.where(np.isnan(v), -np.inf, v))


def _wrong_multipliers(scales: Scales) -> Iterator[tuple[str, Single]]:
    exact = scales.exact()
    yield "m is computed in double precision, then cast to float32", exact.astype(np.float32)
    yield from scales.wrong()
    yield "m is a float16", exact.astype(np.float16).astype(np.float32)


def _wrong_products_to_codes(layer: ScaledSum, acc: Integers) -> Iterator[FaultModel]:
    for cause, codes in _real_products(layer, acc):
        yield FaultModel(cause, PRODUCT, codes)
    for cause, v in _products_in_other_steps(layer, acc):
        yield FaultModel(cause, PRODUCT, _codes(layer).nearest(v))
    for cause, v in _late_biases(layer, acc):
        yield FaultModel(cause, INSIDE_SUM, _codes(layer).nearest(v))
    for cause, rounded in _integer_products(layer, acc):
        yield FaultModel(cause, PRODUCT, _codes(layer).saturate(rounded.astype(np.float64)))


def _real_products(layer: ScaledSum, acc: Integers) -> Iterator[tuple[str, Array]]:
    """Yield products that are not rounded to float32 before they are rounded to a code."""
    codes = _codes(layer)
    exact = acc.astype(np.float64) * layer.multiplier
    unrounded = "the product is not rounded to float32 before rounding to a code"
    yield f"{unrounded} (double precision, an FMA into a magic constant, or integer significands)", codes.nearest(exact)
    yield f"{unrounded}, which is half away from zero", codes.saturate(half_away(exact))
    cause = "the product is Q31 fixed point from the float32 m, with a single rounding, half up"
    yield cause, codes.saturate(half_up(exact))
    fused = np.rint((exact + layer.y_zero_point).astype(np.float32).astype(np.float64))
    yield "the product is fused with the addition of the zero point (FMA)", codes.clip(fused)
    double = acc.astype(np.float64) * layer.scales.exact()
    yield "m and the product are in double precision", codes.nearest(double)
    cause = "m and the product are in double precision, and rounding is half away from zero"
    yield cause, codes.saturate(half_away(double))


def _products_in_other_steps(layer: ScaledSum, acc: Integers) -> Iterator[tuple[str, Single]]:
    y_scale = _y_scale(layer)
    real = acc.astype(np.float32) * _real_scale(layer.scales)
    yield "the sum is dequantised, then divided by y_scale", real / y_scale
    yield "the sum is dequantised, then multiplied by 1 / y_scale", real * (np.float32(1) / y_scale)


def _late_biases(layer: ScaledSum, acc: Integers) -> Iterator[tuple[str, Single]]:
    """Yield outputs with the bias added in float32 after the scaling."""
    before: Single = (acc - layer.bias).astype(np.float32)
    bias: Single = layer.bias.astype(np.float32)
    late = bias * layer.multiplier
    yield "the bias is added after the scaling, in float32", before * layer.multiplier + late
    fused = before.astype(np.float64) * layer.multiplier + late
    yield "the bias is added after the scaling, fused with it (FMA)", fused.astype(np.float32)
    if layer.scales.y is not None:
        scale = _real_scale(layer.scales)
        cause = "the bias is added to the dequantised sum, in float32, before the division by y_scale"
        yield cause, ((before * scale + bias * scale) / layer.scales.y).astype(np.float32)


def _real_scale(scales: Scales) -> Single:
    """Return the value of one unit of the accumulator."""
    return (scales.alpha * scales.a) * scales.b


def _y_scale(layer: ScaledSum) -> np.float32:
    if layer.scales.y is None:
        raise ValueError(f"layer {layer.name} has a float32 output, which is not scaled")
    return layer.scales.y


def _integer_products(layer: ScaledSum, acc: Integers) -> Iterator[tuple[str, Integers]]:
    single, exact = layer.multiplier.astype(np.float64), layer.scales.exact()
    cause = "the product is Q31 fixed point with a single rounding, half up (TFLite), m from double precision"
    yield cause, single_rounding(acc, exact, 31)
    cause = "the product is Q31 fixed point with two roundings (gemmlowp)"
    yield f"{cause}, m from float32", double_rounding(acc, single)
    yield f"{cause}, m from double precision", double_rounding(acc, exact)
    yield "the product is Q15 fixed point (a 16-bit multiplier)", single_rounding(acc, exact, 15)


def _wrong_products(layer: ScaledSum, acc: Integers) -> Iterator[FaultModel]:
    """Yield the fault models of a float32 output."""
    exact = acc.astype(np.float64) * layer.multiplier
    yield FaultModel("the accumulator is not rounded to float32 before the product", PRODUCT, exact.astype(np.float32))
    yield FaultModel("the product is truncated toward zero", "rounded half to even", toward_zero(exact))
    yield FaultModel("the output is rounded to float16", PRODUCT, through_float16(product(layer, acc)))
    for cause, v in _late_biases(layer, acc):
        yield FaultModel(cause, INSIDE_SUM, v)


def _wrong_sums(layer: _Sums, inputs: Array) -> Iterator[tuple[str, str, Integers]]:
    """Yield (cause, correct behaviour, accumulators) for patches (n, K); the causes depend on the shapes alone."""
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    centered = inputs.astype(np.int64) - layer.a_zero_point
    acc = _dot(centered, weights) + layer.bias
    yield "the bias is left out", SUM, acc - layer.bias
    for other in other_zero_points(layer.a_zero_point):
        cause = f"the input zero point is {other}" if other else "the input zero point is left out"
        yield cause, str(layer.a_zero_point), acc + (layer.a_zero_point - other) * weights.sum(axis=0)
    yield from _wrong_weight_zero_points(layer, centered, acc)
    yield from _wrong_signs(layer, inputs, acc)
    yield from _narrow_numbers(layer, centered, weights, acc)
    for tail in tails(layer.depth):
        cause = "the last input is left out of the sum" if tail == 1 else f"the last {tail} inputs are left out of it"
        yield cause, SUM, acc - _dot(centered[:, -tail:], weights[-tail:])
    yield from _wrong_products_as_stored(layer, inputs, acc)
    yield from _wrong_layouts(layer, inputs)
    swapped = layer.bias.byteswap().astype(np.int64)
    yield "the bytes of the bias are in the other order", "little endian", acc - layer.bias + swapped


def _wrong_weight_zero_points(layer: _Sums, centered: Integers, acc: Integers) -> Iterator[tuple[str, str, Integers]]:
    total = centered.sum(axis=1, keepdims=True)
    if layer.weights_zero_point.any():
        yield "the weight zero point is left out", SUM, acc + total * layer.weights_zero_point
    if layer.weights.dtype == np.uint8 and (layer.weights_zero_point != 128).any():
        yield "the weight zero point is 128", SUM, acc + total * (layer.weights_zero_point - 128)


def _wrong_signs(layer: _Sums, inputs: Array, acc: Integers) -> Iterator[tuple[str, str, Integers]]:
    """Yield codes read as the other 8-bit type: those with the highest bit are 256 away."""
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    centered = inputs.astype(np.int64) - layer.a_zero_point
    cause = f"the input codes are read as {as_other_type(inputs).dtype}"
    yield cause, str(inputs.dtype), acc + _dot(_misread(inputs), weights)
    cause = f"the weights are read as {as_other_type(layer.weights).dtype}"
    yield cause, str(layer.weights.dtype), acc + _dot(centered, _misread(layer.weights))


def _misread(values: Array) -> Integers:
    """Return the number that reading as the other type adds to each code."""
    return as_other_type(values).astype(np.int64) - values


def _narrow_numbers(
    layer: _Sums, centered: Integers, weights: Integers, acc: Integers
) -> Iterator[tuple[str, str, Integers]]:
    """Yield accumulators of a circuit or data type with too few bits: numbers wrap around."""
    yield "the accumulator has 16 bits and wraps around", "int32", acc.astype(np.int16).astype(np.int64)
    for bits, saturated in _saturated(centered, weights).items():
        right = "int32, which no sum leaves"
        yield f"partial sums saturate to int{bits}, then the bias is added", right, saturated + layer.bias
    wrap = "less their zero point have 8 bits and wrap around"
    yield f"the inputs {wrap}", "int16", _dot(centered.astype(np.int8), weights) + layer.bias
    yield f"the weights {wrap}", "int16", _dot(centered, weights.astype(np.int8)) + layer.bias


def _saturated(centered: Integers, weights: Integers) -> dict[int, Integers]:
    """Return sums from 0 on that saturate after each product, by their bits; right ones if they are too many."""
    largest = _dot(np.abs(centered), np.abs(weights))
    sums = {bits: _dot(centered, weights) for bits in (16, 8)}
    for bits, total in sums.items():
        high = 2 ** (bits - 1) - 1
        rows = np.flatnonzero((largest > high).any(axis=1))  # others saturate nowhere
        if len(rows) * weights.size > SATURATED_TERMS:
            continue
        acc = np.zeros((len(rows), weights.shape[1]), np.int32)
        for a, w in zip(centered[rows].T.astype(np.int32), weights.astype(np.int32), strict=True):
            acc += a[:, None] * w
            np.clip(acc, -high - 1, high, out=acc)
        total[rows] = acc
    return sums


def _wrong_products_as_stored(layer: _Sums, inputs: Array, acc: Integers) -> Iterator[tuple[str, str, Integers]]:
    """Yield accumulators of kernels that multiply codes and correct for the zero points separately."""
    raw = inputs.astype(np.int64)
    for note, weights in _stored_weights(layer):
        yield f"pairs of products saturate to int16{note}", "exact int32 sums", acc + _pair_errors(raw, weights)
        if layer.a_zero_point or (weights != layer.weights.astype(np.int64) - layer.weights_zero_point).any():
            for tail in tails(layer.depth):
                cause = f"the products of the last {tail} inputs are left out, not their zero points{note}"
                yield cause, SUM, acc - _dot(raw[:, -tail:], weights[-tail:])


def _stored_weights(layer: _Sums) -> Iterator[tuple[str, Integers]]:
    """Yield the factors that a kernel may multiply, with a note if they differ from the model's."""
    yield "", layer.weights.astype(np.int64)
    if layer.weights.dtype == np.uint8:
        yield ", of weights less 128", layer.weights.astype(np.int64) - 128


def _pair_errors(codes: Integers, weights: Integers) -> Integers:
    """Compute like x86's VPMADDUBSW: raw products of inputs k and k + 1 (k even) are added in saturating int16."""
    error = np.zeros((len(codes), weights.shape[1]), np.int64)
    for k in range(0, len(weights) - 1, 2):
        pair = codes[:, k : k + 1] * weights[k] + codes[:, k + 1 : k + 2] * weights[k + 1]
        error += np.clip(pair, -(2**15), 2**15 - 1) - pair
    return error


def _wrong_layouts(layer: _Sums, inputs: Array) -> Iterator[tuple[str, str, Integers]]:
    """Yield weights, (K, N), taken from memory in an order that they do not have there."""
    shape = layer.weights.shape
    right = f"weights of {shape[0]} inputs by {shape[1]} outputs"
    by_outputs = np.ascontiguousarray(layer.weights.T).reshape(shape)
    cause = "the weights are transposed"
    if shape[0] == shape[1]:
        yield cause, right, _sum_with(layer, inputs, by_outputs)
        return
    yield f"{cause}: stored by outputs, read by inputs", right, _sum_with(layer, inputs, by_outputs)
    by_inputs = np.ascontiguousarray(layer.weights).reshape(shape[::-1]).T
    yield f"{cause}: stored by inputs, read by outputs", right, _sum_with(layer, inputs, by_inputs)


def _sum_with(layer: _Sums, inputs: Array, weights: Array) -> Integers:
    """Return the accumulators with other weights."""
    centered = inputs.astype(np.int64) - layer.a_zero_point
    return _dot(centered, weights.astype(np.int64) - layer.weights_zero_point) + layer.bias


def _dot(a: Integers, b: Integers) -> Integers:
    """Return the matrix product; in float64, which is faster and exact for sums below 2^53."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


def quantised(multiplier: Real, bits: int) -> tuple[Integers, Integers]:
    """Return q, exponent: multiplier = q * 2^(exponent - bits), q rounded to nearest in [2^(bits-1), 2^bits)."""
    fraction, exponent = np.frexp(multiplier)
    q = np.floor(np.ldexp(fraction, bits) + 0.5).astype(np.int64)
    carried = q >> bits != 0
    return np.where(carried, q >> 1, q), exponent.astype(np.int64) + carried


def single_rounding(acc: Integers, multiplier: Real, bits: int) -> Integers:
    """Return floor(acc * q * 2^(exponent - bits) + 1/2), as TFLite's with a single rounding (bits = 31)."""
    q, exponent = quantised(multiplier, bits)
    shift = np.clip(bits - exponent, 1, 62)
    rounded: Integers = (acc * q + (np.int64(1) << (shift - 1))) >> shift
    return rounded


def double_rounding(acc: Integers, multiplier: Real) -> Integers:
    """Requantise as gemmlowp: SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT; both round."""
    q, exponent = quantised(multiplier, 31)
    high = _doubling_high_product(acc << np.clip(exponent, 0, 31), q)
    return shifted(high, np.clip(-exponent, 0, 62))


def shifted(values: Integers, shift: Integers) -> Integers:
    """Return values / 2^shift, rounded half away from zero, as gemmlowp's RoundingDivideByPOT."""
    mask = (np.int64(1) << shift) - 1
    rounded: Integers = (values >> shift) + ((values & mask) > (mask >> 1) + (values < 0))
    return rounded


def _doubling_high_product(a: Integers, b: Integers) -> Integers:
    """Return (a * b + nudge) / 2^31, the quotient toward zero."""
    product = a * b
    nudged = np.abs(product + np.where(product >= 0, 1 << 30, 1 - (1 << 30)))
    high: Integers = np.sign(product) * (nudged >> 31)
    return high
