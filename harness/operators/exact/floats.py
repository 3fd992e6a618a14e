"""Rounding to float32 and to quantised values, decided by integer arithmetic alone.

A monotone operator with an 8-bit output is reduced to the 255 thresholds at which the output steps up, once for each
layer; vectors are then only compared with them.  Nothing is shared with ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat
from harness.operators.softfloat import Integers

CACHED_LAYERS = 256
"""Reference, stimuli, coverage and proof all use the thresholds of a layer."""
BLOCK = 1024
"""Vectors that are evaluated together: few enough for the second-level cache."""


def float_bits(integer: Integers, multiplier: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    """Return the bits of float32(float32(integer) * multiplier) for a positive normal multiplier."""
    product = softfloat.multiply(softfloat.from_integer(integer), softfloat.decode(bits_of(multiplier)))
    return softfloat.encode(product, integer < 0)


def bits_of(x: npt.NDArray[np.float32]) -> Integers:
    """Return the bits of float32 numbers as int64."""
    return x.view(np.uint32).astype(np.int64)


def ordered(x: npt.NDArray[np.float32]) -> Integers:
    """Return integers in the order of the float32 numbers x; -0 equals 0, every NaN equals -infinity (ONNX Runtime)."""
    bits = bits_of(x)
    magnitude = bits & 0x7FFFFFFF
    keys = np.where(bits >> 31 == 1, -magnitude, magnitude)
    return np.where(magnitude > softfloat.INFINITY_BITS, -softfloat.INFINITY_BITS, keys)


def from_ordered(keys: Integers) -> npt.NDArray[np.float32]:
    """Return the float32 numbers of these integers, the inverse of `ordered`."""
    bits = np.where(keys < 0, 1 << 31 | -keys, keys)
    return bits.astype(np.uint32).view(np.float32)


def quantised(count: Integers, dtype: np.dtype[Any]) -> Array:
    """Return QMIN + count in the type."""
    return (count + np.iinfo(dtype).min).astype(dtype)


def saturate(v: Array, dtype: np.dtype[Any], zero_point: int) -> Array:
    """Return the nearest quantised values of float32 v: round half to even, add the zero point, clamp; NaN is least."""
    limits = np.iinfo(dtype)
    low, high = np.float32(limits.min - zero_point), np.float32(limits.max - zero_point)
    rounded: Array = np.rint(np.minimum(np.where(v >= low, v, low), high)).astype(np.int32)
    return (rounded + zero_point).astype(dtype)


def fused(a: Array | np.float32, b: Array | np.float32, c: Array | np.float32) -> Array:
    """Return float32(a * b + c), rounded once: the sum is rounded to odd in float64, where the product is exact."""
    product = np.atleast_1d(np.asarray(a, np.float64) * b)
    total = product + c
    part = total - product
    lost = (product - (total - part)) + (c - part)
    is_inexact = (lost != 0) & np.isfinite(total)
    bits = total.view(np.int64) - (is_inexact & ((lost < 0) != (total < 0)))
    rounded: Array = (bits | is_inexact).view(np.float64).astype(np.float32)
    return rounded


def smallest(reached: Callable[[Integers], npt.NDArray[np.bool_]], low: Integers, high: Integers) -> Integers:
    """Return the smallest integer from low to high that is reached, by bisection; high is assumed to be."""
    while (low < high).any():
        middle = (low + high) >> 1
        is_reached = (low == high) | reached(middle)
        low, high = np.where(is_reached, low, middle + 1), np.where(is_reached, middle, high)
    return low


@dataclass(frozen=True, eq=False)
class Staircase:
    """Number of thresholds that an accumulator reaches, for each of N columns.

    The accumulators of column n from first[n] to last[n] are cut into buckets of 2**shift[n], no wider than the
    smallest step, so that a bucket holds at most one threshold after its start: `below` counts the thresholds up to
    the start, `following` is the next one.
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

    def repeated(self, times: int) -> Staircase:
        """Return the same for `times` adjacent columns in place of each."""
        of_columns = {name: np.repeat(getattr(self, name), times) for name in ("first", "last", "shift", "offset")}
        return replace(self, **of_columns)

    def count(self, acc: Integers) -> Integers:
        """Return the number of thresholds[n] <= acc[..., n]."""
        inside = np.minimum(np.maximum(acc, self.first), self.last)
        bucket = ((inside - self.first) >> self.shift) + self.offset
        count: Integers = self.below[bucket] + (acc >= self.following[bucket]).astype(np.int64)
        return count


def _buckets(steps: Integers, low: int, high: int) -> tuple[int, int, int, npt.NDArray[np.uint8], Integers]:
    reachable = steps[(steps > low) & (steps <= high)]
    first, last = (reachable[0] - 1, reachable[-1]) if len(reachable) else (low, low)
    narrowest = max(1, int(np.diff(reachable).min(initial=high - low + 1)))
    shift = narrowest.bit_length() - 1
    starts = np.arange(first, last + 1, 1 << shift)
    below = np.searchsorted(steps, starts, side="right")
    return first, last, shift, below.astype(np.uint8), np.append(steps, high + 1)[below]
