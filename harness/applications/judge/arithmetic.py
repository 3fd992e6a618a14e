"""Fault models of engines: arithmetic that differs from the model's on purpose, beside the faults of operators.

fixed point     CMSIS-NN rounds a product twice, both times half up or away from zero
powers of two   DPU and TIDL shift in place of a product: m = 2^e
ranges          TensorRT has symmetric int8; other engines asymmetric ranges of 8 bits
short floats    float16, bfloat16 and TF32 factors with float32 sums; float16 sums; flushed subnormals
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import ml_dtypes
import numpy as np

from harness.core.arrays import Array
from harness.operators import contraction_faults
from harness.operators.base import Evaluate, Layer
from harness.operators.contraction import Contraction
from harness.operators.conv import Conv
from harness.operators.fault_models import (
    SATURATED,
    Codes,
    FaultModel,
    Real,
    half_away,
    half_up,
    through_float16,
)
from harness.operators.float_contraction import ORDER, FloatContraction, contracted, in_order
from harness.operators.softfloat import Integers

ROUNDINGS: dict[str, Callable[[Real], Real]] = {
    "rounding half to even": np.rint,
    "rounding half up": half_up,
    "rounding half away from zero": half_away,
}
Add: TypeAlias = Callable[[Array, Array, Array], Array]
"""Function from patches (n, K), weights (K, N) and bias (N,) to sums (n, N)."""
CHANNEL_BLOCKS = 4, 8, 16
"""Channels of a block of ONNX Runtime's convolutions, as many as a vector register has float32."""
TERMS_OF_BLOCKS = 128, 256, 512
"""Terms of a block of ONNX Runtime's matrix products; it depends on the shapes."""
POWERS: dict[str, Callable[[Real], Real]] = {"nearest": np.rint, "next smaller": np.floor, "next larger": np.ceil}
TF32_BITS = 13
"""Bits of the significand of float32 that TF32 does not have."""
LARGEST_SHARE = 1 << 22
"""Values of one layer up to which sums in float16 are computed."""


def engine_models(layer: Layer, inputs: Sequence[Array]) -> Iterator[FaultModel]:
    """Yield what arithmetic of engines makes of the inputs of a layer, (vectors, size) each."""
    if isinstance(layer, FloatContraction):
        yield from _of_floats(layer, inputs[0])
    elif isinstance(layer, Contraction) and layer.dtype.kind in "iu":
        yield from _of_sums(layer, layer.accumulate()(*inputs))
    elif layer.dtype == np.float32:
        evaluate = layer.prepare()
        yield FaultModel("subnormal results are flushed to zero", "they are kept", _flushed(evaluate(*inputs)))
        flushed = _flushed(evaluate(*map(_flushed, inputs)))
        yield FaultModel("subnormal inputs and results are flushed to zero", "they are kept", flushed)


def models(layer: Layer, inputs: Sequence[Array]) -> Iterator[FaultModel]:
    """Yield the same, then the faults of the operator; of a sum of codes those behind the sum."""
    yield from engine_models(layer, inputs)
    sums = layer.sums
    if sums is not None:
        yield from sums.fault_models_of_sums(sums.accumulate()(*inputs))
    else:
        yield from layer.fault_models(*inputs)


def _of_sums(layer: Contraction, acc: Integers) -> Iterator[FaultModel]:
    codes, sums = Codes(layer.y_zero_point, layer.dtype), layer.by_channel(acc)
    exact, right = layer.scales.exact(), contraction_faults.PRODUCT
    single = ((layer.scales.alpha * layer.scales.a) * layer.scales.b).astype(np.float64) / np.float64(layer.scales.y)
    schemes: list[tuple[str, Callable[[Integers, Real], Integers], Real]] = [
        ("two roundings, both half up (ruy on x86)", _half_up_twice, single),
        ("two roundings (gemmlowp)", contraction_faults.double_rounding, single),
        ("a single rounding, half up (TFLite)", partial(contraction_faults.single_rounding, bits=31), single),
        ("two roundings, half up and half away from zero (CMSIS-NN)", _cmsis, single),
        ("two roundings, half up and half away from zero (CMSIS-NN)", _cmsis, exact),
    ]
    for words, scheme, multiplier in schemes:
        scales = (
            "double precision" if multiplier is exact else "a float32 product of scales, divided in double precision"
        )
        cause = f"the product is Q31 fixed point with {words}, m from {scales}"
        output = codes.saturate(scheme(sums, multiplier).astype(np.float64))
        yield FaultModel(cause, right, layer.arranged(output))
    powers = {name: np.exp2(nearest(np.log2(exact))) for name, nearest in POWERS.items()}
    for name, power in powers.items():
        if (power == layer.multiplier).all():
            continue  # the model has it
        for words, rounding in ROUNDINGS.items():
            cause = f"m is the {name} power of two, {words}"
            yield FaultModel(cause, layer.scales.formula, layer.arranged(codes.saturate(rounding(sums * power))))
    v = contraction_faults.product(layer, sums).astype(np.float64)
    yield from (model._replace(output=layer.arranged(model.output)) for model in _of_ranges(v, codes))


def _of_ranges(v: Real, codes: Codes) -> Iterator[FaultModel]:
    """Yield outputs in other steps than those of the model, of the same range, as codes of the model."""
    low, high = codes.low - codes.zero_point, codes.high - codes.zero_point
    step = max(-low, high) / 127
    for least in (-127, -128):
        numbers = np.clip(np.rint(v / step), least, 127) * step
        yield FaultModel(f"codes are symmetric int8 from {least} (TensorRT)", SATURATED, codes.nearest(numbers))
    if low < 0:
        numbers = np.clip(np.rint(v / (high / 255)), 0, 255) * (high / 255)
        yield FaultModel("codes are asymmetric: 255 steps from 0 on", SATURATED, codes.nearest(numbers))


def _high_product(acc: Integers, multiplier: Real) -> tuple[Integers, Integers]:
    """Return (acc * q + 2^30) >> 31 for m = q * 2^-31 * 2^-shift, which is rounded half up, and the shift."""
    q, exponent = contraction_faults.quantised(multiplier, 31)
    high: Integers = ((acc << np.clip(exponent, 0, 31)) * q + (1 << 30)) >> 31
    return high, np.clip(-exponent, 0, 62)


def _cmsis(acc: Integers, multiplier: Real) -> Integers:
    """Return the product whose shift is rounded half away from zero."""
    return contraction_faults.shifted(*_high_product(acc, multiplier))


def _half_up_twice(acc: Integers, multiplier: Real) -> Integers:
    """Return the product whose shift is rounded half up, as shifts of vector units do."""
    high, shift = _high_product(acc, multiplier)
    rounded: Integers = (high + ((np.int64(1) << shift) >> 1)) >> shift
    return rounded


def _of_floats(layer: FloatContraction, values: Array) -> Iterator[FaultModel]:
    for cause, add in _orders(layer).items():
        yield FaultModel(cause, ORDER, layer.summed(values, add))
    shortened: Mapping[str, Callable[[Array], Array]] = {
        "float16": through_float16,
        "bfloat16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
        "TF32": _tf32,
    }
    for name, short in shortened.items():
        summed = layer.summed(values, partial(_shortened, short=short))
        yield FaultModel(f"the factors are {name}, the sums float32", ORDER, summed)
        if name == "float16":
            yield FaultModel("the factors and the output are float16, the sums float32", ORDER, short(summed))
    if values.shape[0] * layer.size * len(layer.weights) <= LARGEST_SHARE << 4:
        yield FaultModel("all numbers and sums are float16", ORDER, layer.summed(values, _in_float16))
    flushed = layer.summed(values, lambda a, w, b: _flushed(in_order(_flushed(a), _flushed(w), b)))
    yield FaultModel("subnormal inputs and results are flushed to zero", "they are kept", flushed)


def _shortened(patch: Array, weights: Array, bias: Array, short: Callable[[Array], Array]) -> Array:
    return in_order(short(patch), short(weights), bias)


def _orders(layer: FloatContraction) -> dict[str, Add]:
    """Return sums in the orders of engines, with the bias last; ONNX Runtime, tract and IREE have them."""
    fused = "multiplications and additions are contracted (FMA)"
    orders: dict[str, Add] = {f"{fused}, the bias is added last": _bias_last(contracted)}
    for terms in TERMS_OF_BLOCKS:
        if terms < len(layer.weights):
            cause = f"{fused} within blocks of {terms} terms, which are added to the bias"
            orders[cause] = partial(_to_bias, terms=terms)
    if not isinstance(layer, Conv):
        return orders
    window = math.prod(layer.window.kernel)
    places = np.arange(len(layer.weights)).reshape(-1, window).T.reshape(-1)
    if not 1 < window < len(places):
        return orders
    by_position = "the products are added by position and channel, the bias last"

    def moved(patch: Array, weights: Array, bias: Array, sums: Add) -> Array:
        return sums(patch[:, places], weights[places], bias)

    orders[by_position] = _bias_last(partial(moved, sums=in_order))
    orders[f"{by_position}, {fused}"] = _bias_last(partial(moved, sums=contracted))
    for channels in (1, *CHANNEL_BLOCKS):
        if len(places) % (window * channels) == 0:
            of_block = "each channel" if channels == 1 else f"blocks of {channels} channels, by position and channel"
            cause = f"{fused} within {of_block}, the sums of the {'blocks' if channels > 1 else 'channels'} are added"
            orders[f"{cause}, the bias last"] = _bias_last(partial(_by_blocks, window=window, channels=channels))
    return orders


def _bias_last(sums: Add) -> Add:
    return lambda patch, weights, bias: sums(patch, weights, np.zeros_like(bias)) + bias


def _to_bias(patch: Array, weights: Array, bias: Array, terms: int) -> Array:
    """Return the bias and sums of fused multiply-adds, one for each block of so many terms."""
    acc, none = np.broadcast_to(bias, (len(patch), len(bias))), np.zeros_like(bias)
    for start in range(0, len(weights), terms):
        acc = acc + contracted(patch[:, start : start + terms], weights[start : start + terms], none)
    return acc


def _by_blocks(patch: Array, weights: Array, bias: Array, window: int, channels: int) -> Array:
    """Return the sums of sums of fused multiply-adds, one for each block of channels of a window."""
    acc, size = np.zeros((len(patch), len(bias)), np.float32), window * channels
    order = np.arange(size).reshape(channels, window).T.reshape(-1)
    for start in range(0, len(weights), size):
        acc = acc + contracted(patch[:, start + order], weights[start + order], bias)
    return acc


def _tf32(values: Array) -> Array:
    """Return float32 rounded to the 10 bits of a TF32 significand, half to even; finite numbers stay finite or grow."""
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    half = (np.uint64(1) << np.uint64(TF32_BITS - 1)) - np.uint64(1)
    rounded = bits + half + ((bits >> np.uint64(TF32_BITS)) & np.uint64(1))
    short = (rounded >> np.uint64(TF32_BITS)) << np.uint64(TF32_BITS)
    return np.where(np.isfinite(values), short.astype(np.uint32).view(np.float32), values)


def _in_float16(patch: Array, weights: Array, bias: Array) -> Array:
    """Return sums (n, N) of patches (n, K), weights (K, N) and bias (N,), each operation rounded to float16."""
    acc = np.broadcast_to(bias.astype(np.float16), (len(patch), weights.shape[1]))
    for a, w in zip(patch.T.astype(np.float16), weights.astype(np.float16), strict=True):
        acc = acc + a[:, None] * w
    return acc.astype(np.float32)


def _flushed(values: Array) -> Array:
    if values.dtype != np.float32:
        return values
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, values * np.float32(0), values)


class Chain:
    """Layers of which only the last is in the dumps: what the engine makes of them all with one arithmetic.

    `sources` are the values (vectors, size) that the engine had before them, by name.
    """

    def __init__(self, layers: Sequence[Layer], evaluate: Mapping[str, Evaluate], sources: Mapping[str, Array]) -> None:
        self._layers, self._evaluate, self._sources = layers, evaluate, sources

    def rows(self, rows: Array) -> Chain:
        """Return the same for some of the vectors."""
        return Chain(self._layers, self._evaluate, {name: values[rows] for name, values in self._sources.items()})

    def models(self) -> Iterator[FaultModel]:
        """Yield each fault of all layers together that have it, then of each layer before the last alone."""
        values = dict(self._sources)
        causes: dict[str, str] = {}
        places: list[tuple[Layer, str]] = []
        for layer in self._layers:
            inputs = [values[source] for source in layer.sources]
            right = self._evaluate[layer.name](*inputs)
            for model in models(layer, inputs):
                if not np.array_equal(model.output, right):
                    causes.setdefault(model.cause, model.right)
                    places.append((layer, model.cause))
            values[layer.output.name] = right
        for cause, right_text in causes.items():
            yield FaultModel(cause, right_text, self._output({layer.name for layer in self._layers}, cause))
        for layer, cause in places:
            if layer is not self._layers[-1]:
                yield FaultModel(f"in {layer.name}: {cause}", causes[cause], self._output({layer.name}, cause))

    def only(self, causes: Iterable[str]) -> Iterator[FaultModel]:
        """Yield the models with these causes."""
        names = {layer.name for layer in self._layers}
        for cause in causes:
            place, separator, rest = cause.removeprefix("in ").partition(": ")
            alone = bool(separator) and cause.startswith("in ") and place in names
            output = self._output({place}, rest) if alone else self._output(names, cause)
            yield FaultModel(cause, "", output)

    def _output(self, faulty: set[str], cause: str) -> Array:
        """Return the last output, where each of the faulty layers has the cause, if it is one of its own."""
        values = dict(self._sources)
        output = np.empty(0)
        for layer in self._layers:
            inputs = [values[source] for source in layer.sources]
            candidates = models(layer, inputs) if layer.name in faulty else ()
            wrong = next((model.output for model in candidates if model.cause == cause), None)
            output = self._evaluate[layer.name](*inputs) if wrong is None else wrong
            values[layer.output.name] = output
        return output
