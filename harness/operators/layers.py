"""A network as values: its layers with their constants, its input box."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array

UINT8, INT8, FLOAT32, INT64 = (np.dtype(name) for name in ("uint8", "int8", "float32", "int64"))


@dataclass(frozen=True, eq=False)  # or layers with arrays, which inherit it, would be equal by their names
class Layer:
    """One operator of the model and the activation that it writes.

    `node` is the ONNX node's name, `name` a unique stem [a-z][a-z0-9_]* derived from it for files and C;
    `sources` and `output` are tensor names of the model.  Of every source it reads `input_width` values per
    vector, of type `input_dtype`; it writes `width` of type `dtype` (uint8, int8, float32 or int64).
    """

    name: str
    node: str
    operator: str
    sources: tuple[str, ...]
    output: str
    input_width: int
    input_dtype: np.dtype[Any]
    width: int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class QuantizeLinear(Layer):
    """q = saturate(round_half_even(x / scale) + zero_point), float32 -> uint8 or int8 (ONNX QuantizeLinear)."""

    scale: np.float32
    zero_point: int


@dataclass(frozen=True)
class DequantizeLinear(Layer):
    """y = float32(q - zero_point) * scale, uint8 or int8 -> float32 (ONNX DequantizeLinear)."""

    scale: np.float32
    zero_point: int


@dataclass(frozen=True, eq=False)
class Scales:
    """The float32 scales of a QGemm; `b` has one for every column, `y` is None for a float32 output."""

    alpha: np.float32
    a: np.float32
    b: npt.NDArray[np.float32]
    y: np.float32 | None


@dataclass(frozen=True, eq=False)
class QGemm(Layer):
    """The quantised fully connected layer (com.microsoft QGemm), inputs (vectors, K), outputs (vectors, N).

    acc[n] = bias[n] + sum_k (a[k] - a_zero_point) * (weights[k, n] - weights_zero_point[n])    in int32
    y[n]   = saturate(round_half_even(float32(acc[n]) * multiplier[n]) + y_zero_point)          uint8, int8
    y[n]   = float32(acc[n]) * multiplier[n]                                                    float32

    `weights` is int8 or uint8 (K, N); `weights_zero_point` int32 (N,); `bias` int32 (N,); `multiplier`
    float32 (N,), computed once in float32 as ((alpha * a_scale) * b_scale[n]) / y_scale, the division
    only for an integer output; `scales` are what it was made of.  `y_zero_point` is 0 for a float32 output.
    """

    weights: Array
    weights_zero_point: npt.NDArray[np.int32]
    bias: npt.NDArray[np.int32]
    multiplier: npt.NDArray[np.float32]
    scales: Scales
    a_zero_point: int
    y_zero_point: int
    per_column: bool


def columns_of(layer: QGemm, start: int, stop: int, name: str) -> QGemm:
    """The QGemm `name` that computes columns `start` to `stop` of `layer`, from the same inputs.

    A column of a QGemm depends on no other, so that the parts side by side are the layer, bit for bit.
    """
    taken = slice(start, stop)
    return replace(
        layer,
        name=name,
        width=stop - start,
        weights=layer.weights[:, taken],
        weights_zero_point=layer.weights_zero_point[taken],
        bias=layer.bias[taken],
        multiplier=layer.multiplier[taken],
        scales=replace(layer.scales, b=layer.scales.b[taken]),
    )


@dataclass(frozen=True, eq=False)
class Add(Layer):
    """The sum of two terms (ONNX Add), float32 (vectors, N).

    y[n] = a[n] + b[n]                         one IEEE 754 addition, rounded half to even

    a is the first source; b is the second, or where there is none the constant `addend`, float32 (N,).
    Both terms and the sum are finite for every input: what could overflow is refused.
    """

    addend: npt.NDArray[np.float32] | None


@dataclass(frozen=True)
class ArgExtremum(Layer):
    """ArgMax or ArgMin over the columns, -> int64 (vectors, 1).

    Of equal values the lowest column wins, or the highest where `last` (ONNX select_last_index).
    """

    largest: bool
    last: bool


@dataclass(frozen=True)
class Normalisation:
    """The affine map from physical inputs to network inputs: normalised = (physical - mean) / range."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    mean: tuple[float, ...]
    range: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """A model, read and found exactly reproducible.

    `layers` stand in the order of the graph's nodes: each reads the input or what layers before it write.
    `box` is float32 (2, input_width): lower and upper bound of every network input.
    `sha256` is that of the ONNX file's bytes, which are kept in `onnx_bytes`.
    """

    name: str
    input_name: str
    input_width: int
    layers: tuple[Layer, ...]
    box: npt.NDArray[np.float32]
    normalisation: Normalisation | None
    metadata: dict[str, str]
    sha256: str
    onnx_bytes: bytes


def accumulator_bounds(layer: QGemm) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The exact bounds, int64 (N,) each, of acc[n] over all input codes a[k].

    Every term (a - a_zero_point) * (weights - weights_zero_point) can be 0, so that the bounds hold for
    every partial sum too, in any order.
    """
    codes = np.iinfo(layer.input_dtype)
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    at_lowest = (int(codes.min) - layer.a_zero_point) * weights
    at_highest = (int(codes.max) - layer.a_zero_point) * weights
    low = layer.bias + np.minimum(at_lowest, at_highest).sum(axis=0)
    high = layer.bias + np.maximum(at_lowest, at_highest).sum(axis=0)
    return low, high
