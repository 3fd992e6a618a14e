"""The known mistakes of every operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np

from harness.analysis.diagnosis import codes as to_codes
from harness.analysis.diagnosis import qgemm
from harness.analysis.diagnosis.codes import Codes, as_other_type
from harness.analysis.diagnosis.fault_model import Mistake, Single
from harness.core.arrays import Array
from harness.operators import Add, ArgExtremum, DequantizeLinear, Layer, QGemm, QuantizeLinear, specification

DIVISION = "x / scale, divided in float32"
DEQUANTISED = "float32(q - zero_point) * scale"
LITTLE_ENDIAN = "little endian"


@singledispatch
def mistakes(layer: Layer, *inputs: Array) -> Iterator[Mistake]:
    """What each known mistake makes of the layer's sources, (vectors, K) each; the more special ones come first.

    The causes depend on the layer alone, not on its inputs.
    """
    raise NotImplementedError(type(layer).__name__)


@singledispatch
def before_rounding(layer: Layer, *_inputs: Array) -> Single | None:
    """The number v (vectors, width) that the layer rounds to a code, clamped; None where it rounds to none."""
    del layer
    return None


mistakes.register(QGemm, qgemm.mistakes)


@before_rounding.register
def _product(layer: QGemm, inputs: Array) -> Single | None:
    return None if layer.dtype == np.float32 else qgemm.clamped_product(layer, specification.accumulator(layer)(inputs))


@before_rounding.register
def _quotient(layer: QuantizeLinear, inputs: Array) -> Single | None:
    return _codes(layer).clamp(_divided(inputs, layer.scale))


def _codes(layer: QuantizeLinear) -> Codes:
    return Codes(layer.zero_point, layer.dtype)


def _divided(x: Single, scale: np.float32) -> Single:
    return _without_nan((x / scale).astype(np.float32))


def _without_nan(v: Single) -> Single:
    """NaN becomes the lowest code."""
    return np.where(np.isnan(v), np.float32(-np.inf), v)


@mistakes.register
def _quantize_linear(layer: QuantizeLinear, inputs: Array) -> Iterator[Mistake]:
    codes = _codes(layer)
    v = _divided(inputs, layer.scale)
    yield from to_codes.mistakes(v, codes)
    yield from _wrong_divisions(layer, inputs, codes)
    cause = "NaN becomes the zero point"
    yield Mistake(cause, "the lowest code", codes.nearest(np.where(np.isnan(inputs), np.float32(0), v)))
    cause = "numbers beyond int32 become its lowest: saturation comes after the conversion to int32"
    beyond = codes.nearest(np.where(v >= np.float32(2**31), np.float32(-np.inf), v))
    yield Mistake(cause, "saturation before the conversion", beyond)
    swapped = _divided(inputs, layer.scale.byteswap())
    yield Mistake("the bytes of the scale are in the other order", LITTLE_ENDIAN, codes.nearest(swapped))


def _wrong_divisions(layer: QuantizeLinear, inputs: Single, codes: Codes) -> Iterator[Mistake]:
    reciprocal = np.float32(1) / layer.scale
    v = _without_nan((inputs * reciprocal).astype(np.float32))
    yield Mistake("multiplication by 1 / scale instead of division", DIVISION, codes.nearest(v))
    exact = inputs.astype(np.float64) * reciprocal + codes.zero_point
    fused = np.rint(_without_nan(exact.astype(np.float32)).astype(np.float64))
    cause = "multiplication by 1 / scale, fused with the addition of the zero point (FMA)"
    yield Mistake(cause, DIVISION, codes.clip(fused))
    inverse = inputs.astype(np.float64) * (1 / np.float64(layer.scale))
    nearest = codes.nearest(np.where(np.isnan(inverse), -np.inf, inverse))
    yield Mistake("multiplication by 1 / scale in double precision", DIVISION, nearest)
    double = inputs.astype(np.float64) / np.float64(layer.scale)
    nearest = codes.nearest(np.where(np.isnan(double), -np.inf, double))
    yield Mistake("the division is in double precision", DIVISION, nearest)


@mistakes.register
def _dequantize_linear(layer: DequantizeLinear, inputs: Array) -> Iterator[Mistake]:
    q, scale = inputs.astype(np.int64), layer.scale

    def scaled(centered: Array, factor: Any = scale) -> Single:
        y: Single = centered.astype(np.float32) * factor
        return y

    right = q - layer.zero_point
    for other in qgemm.other_zero_points(layer.zero_point):
        cause = f"the zero point is {other}" if other else "the zero point is left out"
        yield Mistake(cause, str(layer.zero_point), scaled(q - other))
    late = scaled(q) - np.float32(layer.zero_point) * scale
    yield Mistake("the zero point is subtracted after the scaling", DEQUANTISED, late)
    divided = right.astype(np.float32) / (np.float32(1) / scale)
    yield Mistake("division by 1 / scale instead of multiplication", DEQUANTISED, divided)
    truncated = qgemm.toward_zero(right * np.float64(scale))
    yield Mistake("the product is truncated toward zero", "rounded half to even", truncated)
    yield Mistake("the scale is a float16", "float32", scaled(right, qgemm.through_float16(np.atleast_1d(scale))))
    yield Mistake("the output is rounded to float16", "float32", qgemm.through_float16(scaled(right)))
    misread = as_other_type(inputs)
    yield Mistake(
        f"the codes are read as {misread.dtype}", str(inputs.dtype), scaled(misread.astype(np.int64) - layer.zero_point)
    )
    swapped = scaled(right, scale.byteswap())
    yield Mistake("the bytes of the scale are in the other order", LITTLE_ENDIAN, swapped)


@mistakes.register
def _add(layer: Add, *inputs: Array) -> Iterator[Mistake]:
    """Not among them: terms that were not rounded to float32 before, which cannot be seen from the rounded ones.

    An addition in double precision of the rounded terms is none either: rounded to float32 it gives the same.
    """
    a, b = inputs if layer.addend is None else (inputs[0], np.broadcast_to(layer.addend, inputs[0].shape))
    right = "a + b, rounded once"
    yield Mistake("the first term is left out", right, b)
    yield Mistake("the second term is left out", right, a)
    yield Mistake("the second term is subtracted instead of added", right, a - b)
    exact = a.astype(np.float64) + b
    yield Mistake("the sum is truncated toward zero", "rounded half to even", qgemm.toward_zero(exact))
    total = a + b
    flushed = np.where(np.abs(total) < np.finfo(np.float32).tiny, total * np.float32(0), total)
    yield Mistake("a subnormal sum is flushed to zero", "it is kept", flushed)
    yield Mistake("the sum is rounded to float16", right, qgemm.through_float16(total))
    if layer.addend is not None:
        yield Mistake("the bytes of the constant are in the other order", LITTLE_ENDIAN, a + layer.addend.byteswap())


@mistakes.register
def _arg_extremum(layer: ArgExtremum, inputs: Array) -> Iterator[Mistake]:
    rule = "of equal values the {} column wins"
    right, wrong = ("last", "first") if layer.last else ("first", "last")
    yield Mistake(rule.format(wrong), rule.format(right), _searched(layer, inputs, last=not layer.last))
    extremes = ("largest", "smallest") if layer.largest else ("smallest", "largest")
    other = _searched(layer, inputs, largest=not layer.largest)
    yield Mistake(f"the {extremes[1]} value is searched", f"the {extremes[0]}", other)
    yield Mistake("columns are counted from 1", "from 0", _searched(layer, inputs) + 1)
    for tail in qgemm.tails(layer.input_width):
        if tail < layer.input_width:
            searched = _searched(layer, inputs[:, :-tail], input_width=layer.input_width - tail)
            yield Mistake(f"the last {tail} of the columns are not looked at", "all are", searched)
    if inputs.dtype != np.float32:
        misread = as_other_type(inputs)
        cause = f"the codes are read as {misread.dtype}"
        yield Mistake(cause, str(inputs.dtype), _searched(layer, misread, input_dtype=misread.dtype))


def _searched(layer: ArgExtremum, inputs: Array, **changes: Any) -> Array:
    """What the layer would choose with these changes, int64 (vectors, 1)."""
    return specification.operator(dataclasses.replace(layer, **changes))(inputs)
