"""Contractions of quantised values: sums of products with constant weights, then one rounding.

    acc[n] = bias[n] + sum_k (a[k] - a_zero_point) * (weights[k, n] - weights_zero_point[n])    in int32
    y[n]   = saturate(round_half_even(float32(acc[n]) * multiplier[n]) + y_zero_point)          uint8, int8
    y[n]   = float32(acc[n]) * multiplier[n]                                                    float32

A sum of integers does not depend on the order of its terms as long as no partial sum leaves int32, which
`require_int32` establishes for every input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, sweeps, text
from harness.operators.base import Ability, Constants, Evaluate, limits
from harness.operators.counters import (
    AccumulatorCounter,
    Counter,
    FindTies,
    LayerCoverage,
    Quantity,
    RoundingCounter,
    Stimuli,
)
from harness.operators.exact import (
    CACHED_LAYERS,
    Staircase,
    bits_of,
    float_bits,
    quantised,
    saturate,
    smallest,
)
from harness.operators.fault_models import Real, Single
from harness.operators.linear import Linear
from harness.operators.node import Node
from harness.operators.product import Product, Runtime, are_small, saturated
from harness.operators.softfloat import Integers
from harness.operators.sweeps import StepFunction, Sweep
from harness.operators.window_vectors import WindowVectors

CHECKED_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Scales:
    """The float32 scales of a contraction; `b` has one for every channel, `y` is None for a float32 output."""

    formula: ClassVar[str] = "m = ((alpha * a_scale) * b_scale) / y_scale, each operation rounded to float32"

    alpha: np.float32
    a: np.float32
    b: npt.NDArray[np.float32]
    y: np.float32 | None

    def multiplier(self) -> npt.NDArray[np.float32]:
        """Return ((alpha * a) * b[n]) / y, each operation rounded to float32, the division only if there is a y."""
        with np.errstate(all="ignore"):  # the reader refuses a result that is not normal
            product: npt.NDArray[np.float32] = (self.alpha * self.a) * self.b
            return product if self.y is None else product / self.y

    def multiplier_bits(self) -> npt.NDArray[np.uint32]:
        """Return the bits of the same by integer arithmetic, uint32 (N,)."""
        alpha, a = (softfloat.decode(bits_of(np.atleast_1d(scale))) for scale in (self.alpha, self.a))
        product = _scale_product(_scale_product(alpha, a), softfloat.decode(bits_of(self.b)))
        if self.y is not None:
            product = softfloat.divide(product, softfloat.decode(bits_of(np.atleast_1d(self.y))))
        negative = np.signbit(self.alpha) ^ np.signbit(self.a) ^ np.signbit(self.b)
        return softfloat.encode(product, negative)

    def exact(self) -> Real:
        """Return the multiplier in double precision."""
        m: Real = (np.float64(self.alpha) * np.float64(self.a)) * self.b.astype(np.float64)
        return m if self.y is None else m / np.float64(self.y)

    def wrong(self) -> Iterator[tuple[str, Single]]:
        """Yield causes and multipliers that operations in another order give."""
        alpha, a, b = self.alpha, self.a, self.b
        if self.y is not None:
            yield "m = (a_scale * b_scale) * (1 / y_scale)", (alpha * a) * b * (np.float32(1) / self.y)
            yield "m = a_scale * (b_scale / y_scale)", (alpha * a) * (b / self.y)
            yield "m = (a_scale / y_scale) * b_scale", ((alpha * a) / self.y) * b
        if alpha != 1:
            divisor = np.float32(1) if self.y is None else self.y
            yield "m = alpha * (a_scale * b_scale) ...", alpha * (a * b) / divisor
            yield "alpha is left out", a * b / divisor


@dataclass(frozen=True)
class Accumulator:
    """Bounds of a layer's accumulators, over all columns, all inputs and every partial sum in any order."""

    low: int
    high: int

    @property
    def headroom_bits(self) -> int:
        """The number of times that the bounds can be doubled before int32 overflows."""
        return 31 - max((value if value >= 0 else ~value).bit_length() for value in (self.low, self.high))

    @property
    def float32_exact(self) -> bool:
        """Return whether float32 represents every integer within the bounds."""
        return max(-self.low, self.high) <= 1 << 24


def _facts(layer: ScaledSum) -> dict[str, Any]:
    """Return the constants without weights and bias, and the bounds of the accumulators."""
    bounds = layer.accumulator()
    return {
        "weights_type": str(layer.weights.dtype),
        "per_column": layer.per_column,
        "a_zero_point": layer.a_zero_point,
        "weights_zero_point": layer.weights_zero_point,
        "y_zero_point": layer.y_zero_point,
        "multiplier": layer.multiplier,
        "accumulator": {
            "low": bounds.low,
            "high": bounds.high,
            "int32_overflow": "excluded",
            "headroom_bits": bounds.headroom_bits,
            "float32_exact": bounds.float32_exact,
        },
    }


def _summary(layer: ScaledSum) -> tuple[str, ...]:
    """Return multipliers and zero points."""
    y_zero_point = "" if layer.dtype == np.float32 else f" y {layer.y_zero_point}"
    zero_points = f"A {layer.a_zero_point} B {text.span(layer.weights_zero_point)}{y_zero_point}"
    return text.floats(layer.multiplier), zero_points


@dataclass(frozen=True, eq=False)
class ScaledSum(Linear):
    """A layer of sums of products of codes, each multiplied by a scale.

    `weights` is int8 or uint8 (K, N); `weights_zero_point` int32 (N,); `bias` int32 (N,); `multiplier` float32 (N,),
    made of `scales`.  `y_zero_point` is 0 for a float32 output.
    """

    text = Linear.text.but(facts_of=_facts, summary_of=_summary)
    runtime = Ability(lambda layer: Runtime(layer, product=layer.product, saturating=layer.saturating))
    stimuli = Ability(lambda layer: Stimuli(layer.counter, None if layer.dtype == np.float32 else layer.find_ties))

    weights_zero_point: npt.NDArray[np.int32]
    bias: npt.NDArray[np.int32]
    multiplier: npt.NDArray[np.float32]
    scales: Scales
    a_zero_point: int
    y_zero_point: int
    per_column: bool

    def prepare(self) -> Evaluate:
        """Return the function from quantised inputs to the output."""
        accumulate, finish = self.accumulate(), self.finish()
        return lambda a: finish(accumulate(a))

    def terms(self) -> npt.NDArray[np.intp]:
        """Return the number of the term of each input, (alignments, input size), 0 to K - 1.

        Every sum has terms of all numbers.  In some alignment the terms of a sum are those of its weights, in order.
        """
        return np.arange(self.input.size)[None]

    def window_vectors(self) -> WindowVectors | None:
        """Return the vectors of the windows of a convolution; None for a layer with one position."""
        return None

    def accumulate(self) -> Callable[[Array], Integers]:
        """Return the function from quantised inputs, (n, input size), to accumulators, int64 (n, size).

        The matrix product runs in floating point, where no sum is rounded: every partial sum, in any order, is an
        integer no larger than `largest`, so it is exact in float32 up to 2**24 and in float64 up to 2**53.
        """
        weights = self.weights.astype(np.int64) - self.weights_zero_point
        largest = (255 * np.abs(weights).sum(axis=0) + np.abs(self.bias.astype(np.int64))).max()
        exact = np.dtype(np.float32 if largest <= 1 << 24 else np.float64)
        b, bias = weights.astype(exact), self.spread(self.bias).astype(exact)
        zero_point = np.array(self.a_zero_point, exact)

        def accumulate(a: Array) -> Integers:
            acc = self.contract(a.astype(exact) - zero_point, b) + bias
            return acc.astype(np.int64)

        return accumulate

    def finish(self) -> Callable[[Integers], Array]:
        """Return the function from accumulators within their bounds, int64 (n, size), to the output."""
        if self.dtype == np.float32:
            multiplier = self.spread(self.multiplier)
            return lambda acc: float_bits(acc, multiplier).view(np.float32)
        staircase = self._staircase()
        return lambda acc: quantised(staircase.count(acc), self.dtype)

    def _staircase(self) -> Staircase:
        return Staircase.of(self.thresholds(), *self.accumulator_bounds()).repeated(self.positions)

    def of_channels(self, taken: slice) -> dict[str, Any]:
        """Return all constants of these channels."""
        names = ("weights_zero_point", "bias", "multiplier")
        scales = replace(self.scales, b=self.scales.b[taken])
        return super().of_channels(taken) | {name: getattr(self, name)[taken] for name in names} | {"scales": scales}

    def accumulator_bounds(self) -> tuple[Integers, Integers]:
        """Return the exact bounds, int64 (N,) each, of acc[n] over all inputs a[k].

        Every term (a - a_zero_point) * (weights - weights_zero_point) can be 0, so the bounds hold for every partial
        sum too, in any order, and for sums that lack terms.
        """
        limits = np.iinfo(self.input.dtype)
        weights = self.weights.astype(np.int64) - self.weights_zero_point
        at_lowest = (int(limits.min) - self.a_zero_point) * weights
        at_highest = (int(limits.max) - self.a_zero_point) * weights
        low = self.bias + np.minimum(at_lowest, at_highest).sum(axis=0)
        high = self.bias + np.maximum(at_lowest, at_highest).sum(axis=0)
        return low, high

    def bounds_of_sums(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return the exact bounds of each sum; values outside an image are the zero point."""
        weights = self.weights.astype(np.int64) - self.weights_zero_point
        positive, negative = np.maximum(weights, 0).astype(np.float64), np.minimum(weights, 0).astype(np.float64)
        least, most = (each[0].astype(np.float64) - self.a_zero_point for each in (low, high))
        bias = self.spread(self.bias.astype(np.int64))
        ends = [(least, most), (most, least)]  # all sums are integers below 2**53, and exact
        sums = [self.contract(a, positive) + self.contract(b, negative) for a, b in ends]
        return sums[0].astype(np.int64) + bias, sums[1].astype(np.int64) + bias

    def output_bounds_of_sums(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return the outputs of both bounds; they are in this order if the multiplier is positive."""
        ends = [self.finish()(low), self.finish()(high)]
        return np.minimum(*ends), np.maximum(*ends)

    def accumulator(self) -> Accumulator:
        """Return the bounds over all columns."""
        low, high = self.accumulator_bounds()
        return Accumulator(int(low.min()), int(high.max()))

    def constants(self) -> Constants:
        """Return the tables, then the numbers; y_scale, y_zero_point and the limits for a quantised output."""
        scales = self.scales
        found: dict[str, Array | np.float32 | int] = {
            "weights": self.weights,
            "weights_zero_point": self.weights_zero_point,
            "bias": self.bias,
            "multiplier": self.multiplier,
            "b_scale": scales.b,
            "alpha": scales.alpha,
            "a_scale": scales.a,
            "a_zero_point": self.a_zero_point,
        }
        if scales.y is None:
            return found
        return found | {"y_scale": scales.y, "y_zero_point": self.y_zero_point, **limits(self.dtype)}

    @lru_cache(maxsize=CACHED_LAYERS)  # noqa: B019 - layers live as long as their network
    def thresholds(self) -> npt.NDArray[np.int32]:
        """Return the smallest accumulator that reaches each value above QMIN: int32 (N, 255), ascending.

        y = QMIN + number of thresholds[n] <= acc for every acc within its bounds low, high.  The thresholds are clipped
        to these bounds: low is always reached, high + 1 never.
        """
        low, high = self.accumulator_bounds()
        steps, column_of = self.thresholds_by_multiplier()
        return np.clip(steps[column_of], low[:, None], high[:, None] + 1).astype(np.int32)

    def thresholds_by_multiplier(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.intp]]:
        """Return thresholds of each distinct multiplier, int32 (M, 255), and the row of each column, (N,).

        They are clipped to the bounds of all columns together.
        """
        limits = np.iinfo(self.dtype)
        targets = np.arange(limits.min + 1, limits.max + 1) - self.y_zero_point
        low, high = self.accumulator_bounds()
        bits, column_of = np.unique(bits_of(self.multiplier), return_inverse=True)
        multiplier = softfloat.decode(bits[:, None])

        def reached(acc: Integers) -> npt.NDArray[np.bool_]:
            v = softfloat.round_to_integer(softfloat.multiply(softfloat.from_integer(acc), multiplier))
            return np.sign(acc) * v >= targets

        shape = (len(bits), len(targets))
        steps = smallest(reached, np.full(shape, low.min()), np.full(shape, high.max() + 1))
        return steps.astype(np.int32), column_of

    def counter(self, room: int) -> Counter:
        """Count accumulators and, for a quantised output, values, ties and saturation."""
        return _FloatCounter(self, room) if self.dtype == np.float32 else _Counter(self, room)

    def find_ties(self) -> FindTies:
        """Find products float32(acc) * m half way between two values."""
        accumulate, staircase = self.accumulate(), self._staircase()
        lower, upper = self._ties_of_steps()
        steps_before = self.spread(np.arange(len(lower)) * lower.shape[1])

        def find(a: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
            acc = accumulate(a)
            reached = staircase.count(acc)
            step = steps_before + reached
            return quantised(reached, self.dtype), (acc == lower.take(step)) | (acc == upper.take(step))

        return find

    def _ties_of_steps(self) -> tuple[Array, Array]:
        """Return for every column and value, int64 (N, 256) each, the tie that rounds up and the one that rounds down.

        A tie is the threshold itself or the accumulator just below it; if it is neither, a value out of reach.
        """
        low, high = (bound[:, None] for bound in self.accumulator_bounds())
        steps = self.thresholds().astype(np.int64)
        multiplier = softfloat.decode(bits_of(self.multiplier)[:, None])

        def ties(acc: Array) -> Array:
            product = softfloat.multiply(softfloat.from_integer(acc), multiplier)
            within = (steps > low) & (steps <= high)
            return np.where(within & softfloat.is_half_way(product), acc, low - 1)

        return np.hstack([low - 1, ties(steps)]), np.hstack([ties(steps - 1), low - 1])

    def check_table(self, table: Array) -> tuple[int, str]:
        """Compare every accumulator of every column; a row of thresholds may serve all columns."""
        low, high = self.accumulator_bounds()
        thresholds = np.broadcast_to(table, (len(low), table.shape[1]))
        for column, (first, last) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            for start in range(first, last + 1, CHECKED_AT_ONCE):
                acc = np.arange(start, min(start + CHECKED_AT_ONCE, last + 1), dtype=np.int32)
                v = acc.astype(np.float32) * self.multiplier[column]
                expected = saturate(v, self.dtype, self.y_zero_point)
                inside = np.clip(thresholds[column].astype(np.int64), start, start + len(acc))
                lengths = np.diff(np.concatenate([[start], inside, [start + len(acc)]]))
                found = quantised(np.repeat(np.arange(256), lengths), self.dtype)
                wrong = np.flatnonzero(expected != found)
                if len(wrong):
                    at = int(wrong[0])
                    where = f"column {column}: accumulator {acc[at]}"
                    return at, f"{where} becomes {found[at]} by its thresholds, {expected[at]} by the formula"
        return int((high - low + 1).sum()), ""

    def sweep(self) -> Sweep:
        """Return every accumulator of every channel within its bounds, divided among the positions of the channel."""
        low, high = self.accumulator_bounds()
        share = -(-(high - low + 1) // self.positions)
        start = low[:, None] + share[:, None] * np.arange(self.positions)
        count = np.clip(high[:, None] + 1 - start, 0, share[:, None])
        return Sweep(np.minimum(start, high[:, None] + 1).reshape(-1), count.reshape(-1))

    def step_functions(self) -> list[StepFunction] | None:
        """Return the requantisation of each value as a function of the accumulator, within its bounds."""
        if self.dtype == np.float32:
            return None
        low, _ = self.accumulator_bounds()
        of_channels = (
            sweeps.of_thresholds(steps.astype(np.int64), int(first), self.dtype)
            for steps, first in zip(self.thresholds(), low, strict=True)
        )
        return [steps for steps in of_channels for _ in range(self.positions)]

    def product(self) -> Product | None:
        """Return the product that ONNX Runtime computes."""
        zero_points = tuple(self.weights_zero_point.tolist())
        return Product(
            self.input.dtype.name,
            self.weights.dtype.name,
            len(self.weights),
            len(self.multiplier),
            self.a_zero_point,
            zero_points if self.per_column else zero_points[:1],
            are_small(self.weights),
        )

    def saturating(self, inputs: Array) -> Array | None:
        """Return the output of kernels that saturate pairs of products to int16; None for types that cannot saturate.

        The sums may be ones that exact products cannot reach.
        """
        if self.input.dtype != np.uint8 or self.weights.dtype != np.int8:
            return None
        sums = [
            saturated(patch, self.weights[:, channels], self.a_zero_point, self.weights_zero_point[channels])
            for channels, patch in self.patches(inputs, self.a_zero_point)
        ]
        acc = (np.concatenate(sums, axis=1) + self.bias).astype(np.int32)
        v: Array = acc.astype(np.float32) * self.multiplier
        return self.arranged(v if self.dtype == np.float32 else saturate(v, self.dtype, self.y_zero_point))

    def require_int32(self, node: Node) -> None:
        """Refuse sums that could wrap; one value above is kept free, for a threshold that is never reached."""
        low, high = self.accumulator_bounds()
        least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max - 1
        for column in np.flatnonzero((low < least) | (high > most)):
            raise node.refusal(
                f"the accumulator of column {column} can reach {low[column]} to {high[column]}",
                f"at most {least} to {most}, the range of int32: fewer inputs or a smaller bias",
            )


class _FloatCounter(Counter):
    """The accumulators; a float32 output has no other countable quantities."""

    def __init__(self, layer: ScaledSum, room: int) -> None:
        low, high = layer.accumulator_bounds()
        self._accumulate, self._by_channel = layer.accumulate(), layer.by_channel
        self._accumulators = AccumulatorCounter(low, high) if (high - low + 1).sum() <= room else None
        self.bits = self._accumulators.reachable if self._accumulators else 0

    def add(self, *values: Array) -> None:
        a, _ = values
        self._add(self._by_channel(self._accumulate(a)))

    def _add(self, acc: Integers) -> None:
        if self._accumulators:
            self._accumulators.add(acc)

    def result(self) -> LayerCoverage:
        return {Quantity.ACCUMULATORS: self._accumulators.result()} if self._accumulators else {}

    def by_column(self, output: Array) -> Array:
        return self._by_channel(output)


class _Counter(_FloatCounter):
    """v = float32(float32(acc) * m[n]); reachable is what some acc within its bounds gives."""

    def __init__(self, layer: ScaledSum, room: int) -> None:
        super().__init__(layer, room)
        self._multiplier = layer.multiplier
        channels = replace(layer.output, shape=(len(layer.multiplier),))
        self._met, self._all = (RoundingCounter(channels, layer.y_zero_point) for _ in range(2))
        low, high = layer.accumulator_bounds()
        steps = layer.thresholds().T.astype(np.int64)
        self._all.add(self._product(np.clip(np.vstack([low, steps - 1, steps, high]), low, high)))
        self.reachable = self._all

    def _add(self, acc: Integers) -> None:
        super()._add(acc)
        self._met.add(self._product(acc))

    def result(self) -> LayerCoverage:
        return {**super().result(), **self._met.result_of(self._all)}

    def _product(self, acc: Integers) -> Array:
        v: Array = acc.astype(np.float32) * self._multiplier
        return v


def _scale_product(a: softfloat.Magnitude, b: softfloat.Magnitude) -> softfloat.Magnitude:
    """Return float32(a * b), which may be subnormal, as long as a division follows."""
    product, exponent = a.significand * b.significand, a.exponent + b.exponent
    beyond = softfloat.bit_length(product) - softfloat.SIGNIFICAND_BITS
    excess = np.clip(np.maximum(beyond, softfloat.LEAST_EXPONENT - exponent), 0, 62)
    return softfloat.Magnitude(softfloat.shift_right_half_even(product, excess), exponent + excess)
