"""The operators in integers alone: an implementation that shares nothing with ONNX Runtime.

Every rounding is decided by integer arithmetic (`softfloat`).  The monotone operators are reduced to the 255
thresholds at which their output code steps up, once per layer; the vectors are then only compared with them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import (
    Add,
    ArgExtremum,
    DequantizeLinear,
    Layer,
    Network,
    QGemm,
    QuantizeLinear,
    Scales,
    accumulator_bounds,
    softfloat,
)
from harness.operators.softfloat import Integers

Operator = Callable[..., Array]

# Vectors that pass through all layers together: few enough for the second-level cache, so that memory stays bounded.
BLOCK = 1024

# OpenBLAS, which numpy brings, starts its threads above this number of multiplications.
SINGLE_THREADED_TERMS = 1 << 18


# Reference, stimuli, coverage and proof all ask for a layer's thresholds.
CACHED_LAYERS = 256


class SpecificationReference:
    """A network's activations according to the integer specification."""

    def __init__(self, network: Network, threads: int = 2) -> None:
        self._input_name = network.input_name
        self._layers = network.layers
        self._operators = [operator(layer) for layer in network.layers]
        self._threads = threads

    def activations(self, vectors: npt.NDArray[np.float32]) -> tuple[Array, ...]:
        """The layers' outputs for float32 (n, K) vectors: (n, width) each, of the model's types, in layer order."""
        outputs = tuple(np.empty((len(vectors), layer.width), layer.dtype) for layer in self._layers)

        def compute(start: int) -> None:
            written: dict[str, Array] = {self._input_name: vectors[start : start + BLOCK]}
            for layer, operate, output in zip(self._layers, self._operators, outputs, strict=True):
                written[layer.output] = output[start : start + BLOCK]
                written[layer.output][:] = operate(*(written[source] for source in layer.sources))

        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(compute, range(0, len(vectors), BLOCK)))
        return outputs


@singledispatch
def operator(layer: Layer) -> Operator:
    """The function of a layer, from its sources, (n, input_width) each, to its output (n, width)."""
    raise NotImplementedError(type(layer).__name__)


@operator.register
def _quantize_linear(layer: QuantizeLinear) -> Operator:
    """The code q = QMIN + number of thresholds <= x."""
    steps = quantize_thresholds(layer)

    def quantize(x: Array) -> Array:
        return _code(np.searchsorted(steps, ordered(x), side="right"), layer.dtype)

    return quantize


@operator.register
def _qgemm(layer: QGemm) -> Operator:
    """The code y[n] = QMIN + number of thresholds[n] <= acc[n]; for a float32 output y[n] = float32(acc[n]) * m[n]."""
    accumulate, end = accumulator(layer), finish(layer)
    return lambda a: end(accumulate(a))


def finish(layer: QGemm) -> Callable[[Integers], Array]:
    """What comes behind the sum: from accumulators within their bounds, int64 (n, N), to the output."""
    if layer.dtype == np.float32:
        return lambda acc: float_bits(acc, layer.multiplier).view(np.float32)
    staircase = Staircase.of(thresholds(layer), *accumulator_bounds(layer))
    return lambda acc: _code(staircase.count(acc), layer.dtype)


@operator.register
def _dequantize_linear(layer: DequantizeLinear) -> Operator:
    """The number y = float32(q - zero_point) * scale, tabulated for every difference of two codes."""
    table = float_bits(np.arange(-255, 256), np.atleast_1d(layer.scale)).view(np.float32)
    return lambda q: table[q.astype(np.int64) - layer.zero_point + 255]


@operator.register
def _add(layer: Add) -> Operator:
    """The number y[n] = float32(a[n] + b[n])."""
    constants = () if layer.addend is None else (layer.addend,)

    def add(*terms: Array) -> Array:
        a, b = map(_bits, (*terms, *constants))
        return softfloat.add(a, b).view(np.float32)

    return add


@operator.register
def _arg_extremum(layer: ArgExtremum) -> Operator:
    """The first, or the last, column that holds the largest, or the smallest, value."""

    def search(values: Array) -> Array:
        keys = ordered(values) if values.dtype == np.float32 else values.astype(np.int64)
        keys = keys if layer.largest else -keys
        forward = keys[:, ::-1] if layer.last else keys
        column: Integers = forward.argmax(axis=1, keepdims=True)
        return layer.input_width - 1 - column if layer.last else column

    return search


@lru_cache(maxsize=CACHED_LAYERS)
def quantize_thresholds(layer: QuantizeLinear) -> Integers:
    """The smallest x that reaches each code above QMIN, as `ordered` int64 (255,).

    v = float32(x / scale);  q = saturate(round_half_even(v) + zero_point)
    """
    codes = np.iinfo(layer.dtype)
    targets = np.arange(codes.min + 1, codes.max + 1) - layer.zero_point
    scale = softfloat.decode(_bits(np.atleast_1d(layer.scale)))

    def reached(x: Integers) -> npt.NDArray[np.bool_]:
        v = softfloat.round_to_integer(softfloat.divide(softfloat.decode(np.abs(x)), scale))
        return np.sign(x) * v >= targets

    # From the lowest finite number to infinity, which needs no evaluation: it always reaches.
    infinity = np.full(len(targets), softfloat.INFINITY_BITS)
    return _smallest(reached, 1 - infinity, infinity)


@lru_cache(maxsize=CACHED_LAYERS)
def thresholds(layer: QGemm) -> npt.NDArray[np.int32]:
    """The smallest accumulator that reaches each code above QMIN: int32 (N, 255), ascending along the codes.

    v = float32(float32(acc) * m[n]);  y = saturate(round_half_even(v) + y_zero_point)  for a uint8 or int8 output
    y = QMIN + number of thresholds[n] <= acc           for every acc within its `accumulator_bounds` low, high

    The thresholds are clipped to these bounds: low is always reached, high + 1 never.
    """
    low, high = accumulator_bounds(layer)
    steps, column_of = thresholds_by_multiplier(layer)
    return np.clip(steps[column_of], low[:, None], high[:, None] + 1).astype(np.int32)


def thresholds_by_multiplier(layer: QGemm) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.intp]]:
    """Thresholds of each multiplier that the columns have, int32 (M, 255), and of each column which is its own, (N,).

    They are as `thresholds`, but clipped to the bounds of all columns together.
    """
    codes = np.iinfo(layer.dtype)
    targets = np.arange(codes.min + 1, codes.max + 1) - layer.y_zero_point
    low, high = accumulator_bounds(layer)
    bits, column_of = np.unique(_bits(layer.multiplier), return_inverse=True)
    multiplier = softfloat.decode(bits[:, None])

    def reached(acc: Integers) -> npt.NDArray[np.bool_]:
        v = softfloat.round_to_integer(softfloat.multiply(softfloat.from_integer(acc), multiplier))
        return np.sign(acc) * v >= targets

    shape = (len(bits), len(targets))
    steps = _smallest(reached, np.full(shape, low.min()), np.full(shape, high.max() + 1))
    return steps.astype(np.int32), column_of


def multiplier_bits(scales: Scales) -> npt.NDArray[np.uint32]:
    """The bits of m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale, each operation rounded to float32; (N,)."""
    alpha, a = (softfloat.decode(_bits(np.atleast_1d(scale))) for scale in (scales.alpha, scales.a))
    product = _scale_product(_scale_product(alpha, a), softfloat.decode(_bits(scales.b)))
    if scales.y is not None:
        product = softfloat.divide(product, softfloat.decode(_bits(np.atleast_1d(scales.y))))
    negative = np.signbit(scales.alpha) ^ np.signbit(scales.a) ^ np.signbit(scales.b)
    return softfloat.encode(product, negative)


def _scale_product(a: softfloat.Magnitude, b: softfloat.Magnitude) -> softfloat.Magnitude:
    """float32(a * b), which may be subnormal, as long as a division follows."""
    product, exponent = a.significand * b.significand, a.exponent + b.exponent
    beyond = softfloat.bit_length(product) - softfloat.SIGNIFICAND_BITS
    excess = np.clip(np.maximum(beyond, softfloat.LEAST_EXPONENT - exponent), 0, 62)
    return softfloat.Magnitude(softfloat.shift_right_half_even(product, excess), exponent + excess)


def accumulator(layer: QGemm) -> Callable[[Array], Integers]:
    """acc[n] = bias[n] + sum_k (a[k] - a_zero_point) * (weights[k, n] - weights_zero_point[n]), (n, K) -> int64 (n, N).

    The matrix product runs in floating point, where no sum is rounded: every partial sum, in any order, is an
    integer no larger than `largest`, hence exact in float32 up to 2**24 and in float64 up to 2**53.
    """
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    largest = (255 * np.abs(weights).sum(axis=0) + np.abs(layer.bias.astype(np.int64))).max()
    exact = np.dtype(np.float32 if largest <= 1 << 24 else np.float64)
    b, bias = weights.astype(exact), layer.bias.astype(exact)
    zero_point = np.array(layer.a_zero_point, exact)

    def accumulate(a: Array) -> Integers:
        acc = _product(a.astype(exact) - zero_point, b) + bias
        return acc.astype(np.int64)

    return accumulate


def _product(a: Array, b: Array) -> Array:
    """The matrix product a @ b, in pieces that BLAS leaves on the calling thread: its own would fight with ours."""
    rows = max(SINGLE_THREADED_TERMS // b.size, 1)
    whole = len(a) - len(a) % rows
    product = np.empty((len(a), b.shape[1]), a.dtype)
    np.matmul(a[:whole].reshape(-1, rows, a.shape[1]), b, out=product[:whole].reshape(-1, rows, b.shape[1]))
    np.matmul(a[whole:], b, out=product[whole:])
    return product


def float_bits(integer: Integers, multiplier: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    """The bits of float32(float32(integer) * multiplier) for a positive normal multiplier."""
    product = softfloat.multiply(softfloat.from_integer(integer), softfloat.decode(_bits(multiplier)))
    return softfloat.encode(product, integer < 0)


def ordered(x: npt.NDArray[np.float32]) -> Integers:
    """Integers in the order of the float32 numbers x, -0 like 0; every NaN like -infinity, as the operators have it."""
    bits = _bits(x)
    magnitude = bits & 0x7FFFFFFF
    keys = np.where(bits >> 31 == 1, -magnitude, magnitude)
    return np.where(magnitude > softfloat.INFINITY_BITS, -softfloat.INFINITY_BITS, keys)


def from_ordered(keys: Integers) -> npt.NDArray[np.float32]:
    """The float32 numbers of these integers: the inverse of `ordered`."""
    bits = np.where(keys < 0, 1 << 31 | -keys, keys)
    return bits.astype(np.uint32).view(np.float32)


@dataclass(frozen=True, eq=False)
class Staircase:
    """For each of N columns, the number of its thresholds that an accumulator reaches.

    Column n's accumulators from first[n] to last[n] are cut into buckets of 2**shift[n], no wider than the
    smallest step, so that a bucket holds at most one threshold beyond its start: `below` counts those up to the
    start, `following` is the next.
    """

    first: Integers
    last: Integers
    shift: Integers
    offset: Integers
    below: npt.NDArray[np.uint8]
    following: Integers

    @classmethod
    def of(cls, steps: npt.NDArray[np.int32], low: Integers, high: Integers) -> Staircase:
        """Prepare thresholds, (N, 255), for accumulators from low to high, (N,) each."""
        columns = [_buckets(*column) for column in zip(steps.astype(np.int64), low, high, strict=True)]
        first, last, shift, below, following = zip(*columns, strict=True)
        sizes = [len(counts) for counts in below]
        return cls(
            first=np.array(first),
            last=np.array(last),
            shift=np.array(shift),
            offset=np.cumsum([0, *sizes[:-1]]),
            below=np.concatenate(below),
            following=np.concatenate(following),
        )

    def count(self, acc: Integers) -> Integers:
        """The number of thresholds[n] <= acc[..., n]."""
        inside = np.minimum(np.maximum(acc, self.first), self.last)
        bucket = ((inside - self.first) >> self.shift) + self.offset
        count: Integers = self.below[bucket] + (acc >= self.following[bucket]).astype(np.int64)
        return count


def _buckets(steps: Integers, low: int, high: int) -> tuple[int, int, int, npt.NDArray[np.uint8], Integers]:
    reachable = steps[(steps > low) & (steps <= high)]
    first, last = (reachable[0] - 1, reachable[-1]) if len(reachable) else (low, low)
    smallest = max(1, int(np.diff(reachable).min(initial=high - low + 1)))
    shift = smallest.bit_length() - 1
    starts = np.arange(first, last + 1, 1 << shift)
    below = np.searchsorted(steps, starts, side="right")
    return first, last, shift, below.astype(np.uint8), np.append(steps, high + 1)[below]


def _smallest(reached: Callable[[Integers], npt.NDArray[np.bool_]], low: Integers, high: Integers) -> Integers:
    """The smallest integer from low to high that is reached, by bisection; high is taken to be."""
    while (low < high).any():
        middle = (low + high) >> 1
        is_reached = (low == high) | reached(middle)
        low, high = np.where(is_reached, low, middle + 1), np.where(is_reached, middle, high)
    return low


def _bits(x: npt.NDArray[np.float32]) -> Integers:
    return x.view(np.uint32).astype(np.int64)


def _code(count: Integers, dtype: np.dtype[Any]) -> Array:
    return (count + np.iinfo(dtype).min).astype(dtype)
