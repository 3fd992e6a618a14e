"""Fault models: known ways to compute an operator wrongly, each with the output that it predicts.

The roundings here are wrong forms of y = saturate(round_half_even(v) + zero_point), v float32 -> uint8 or int8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array

Real: TypeAlias = npt.NDArray[np.float64]
Single: TypeAlias = npt.NDArray[np.float32]


class FaultModel(NamedTuple):
    """A way to compute a layer wrongly and the output (vectors, width) that it gives.

    `cause` and `right` complete the sentence "... differ: `cause`; specification: `right`".  A model that takes
    something from the values that were found, and fits some by chance, must explain at least `least` of them.  One of a
    higher `fallback` is named only where none of a lower one explains everything.
    """

    cause: str
    right: str
    output: Array
    least: int = 1
    fallback: int = 0


class PlacedFault(NamedTuple):
    """A fault at one of many `places` of a sum; `output` returns the output (vectors, width) for one of them."""

    cause: str
    right: str
    places: int
    output: Callable[[int], Array]


LITTLE_ENDIAN = "little endian"
TAIL_LANES = (2, 4, 8, 16, 32, 64)  # of vector units
HALF_TO_EVEN = "half to even"
ZERO_POINT_LAST = "it is added to the rounded integer"
SATURATED = "saturation to the whole range of the type"


def half_away(v: Real) -> Real:
    """Return the nearest integer; of two the one away from zero."""
    return np.trunc(v + np.copysign(0.5, v))


def half_up(v: Real) -> Real:
    """Return the nearest integer; of two the larger."""
    return np.floor(v + 0.5)


def as_other_type(codes: Array) -> Array:
    """Return the same bytes read as the other 8-bit type."""
    return codes.view(np.int8 if codes.dtype == np.uint8 else np.uint8)


# In float64 v + 0.5 is exact for a float32 v of the size of a code.
ROUNDINGS: dict[str, Callable[[Real], Real]] = {
    "rounding is half away from zero": half_away,
    "rounding is half up": half_up,
    "rounding is half down": lambda v: np.ceil(v - 0.5),
    "rounding is truncation toward zero": np.trunc,
    "rounding is down (floor)": np.floor,
    "rounding is up (ceil)": np.ceil,
}


@dataclass(frozen=True)
class Codes:
    """The codes of an activation."""

    zero_point: int
    dtype: np.dtype[Any]

    @property
    def low(self) -> int:
        """QMIN."""
        return int(np.iinfo(self.dtype).min)

    @property
    def high(self) -> int:
        """QMAX."""
        return int(np.iinfo(self.dtype).max)

    def saturate(self, rounded: Real) -> Array:
        """Return the codes of rounded numbers, to which the zero point is still to be added."""
        return self.clip(rounded + self.zero_point)

    def clip(self, codes: Real) -> Array:
        """Return the codes of integers of any size."""
        return np.clip(codes, self.low, self.high).astype(self.dtype)

    def nearest(self, v: Array) -> Array:
        """Return the codes of `v` as specified: rounded half to even, the zero point added, saturated."""
        return self.saturate(np.rint(np.asarray(v, np.float64)))

    def clamp(self, v: Single) -> Single:
        """Clamp v before the rounding; both bounds are exact."""
        return np.clip(v, np.float32(self.low - self.zero_point), np.float32(self.high - self.zero_point))


def wrong_roundings(v: Single, codes: Codes) -> Iterator[FaultModel]:
    """Yield wrong roundings, zero points and ranges for v without NaN."""
    real = v.astype(np.float64)
    for cause, rounding in ROUNDINGS.items():
        yield FaultModel(cause, HALF_TO_EVEN, codes.saturate(rounding(real)))
    yield from _sums_with_a_half(v, codes)
    yield from _wrong_zero_points(v, codes)
    yield from _wrong_ranges(np.rint(real), codes)


def _sums_with_a_half(v: Single, codes: Codes) -> Iterator[FaultModel]:
    """Yield roundings by an addition in float32, which is itself rounded: 0.49999997 + 0.5 is 1."""
    half, zero_point = np.float32(0.5), np.float32(codes.zero_point)
    floored = np.floor((v + half).astype(np.float64))
    yield FaultModel("rounding is half up by floorf(v + 0.5f)", HALF_TO_EVEN, codes.saturate(floored))
    truncated = np.trunc(((codes.clamp(v) + zero_point) + half).astype(np.float64))
    yield FaultModel("rounding is (int)(v + 0.5f) after the zero point is added", HALF_TO_EVEN, codes.clip(truncated))


def _wrong_zero_points(v: Single, codes: Codes) -> Iterator[FaultModel]:
    moved = np.rint((v + np.float32(codes.zero_point)).astype(np.float64))
    yield FaultModel("the zero point is added before rounding", ZERO_POINT_LAST, codes.clip(moved))
    rounded = np.rint(v.astype(np.float64))
    yield FaultModel("the zero point is left out", ZERO_POINT_LAST, codes.clip(rounded))


def _wrong_ranges(rounded: Real, codes: Codes) -> Iterator[FaultModel]:
    right = codes.saturate(rounded)
    low, high = right.dtype.type(codes.low + 1), right.dtype.type(codes.high - 1)
    early = "saturation is one code early at the"
    yield FaultModel(f"{early} top: {high}", SATURATED, np.minimum(right, high))
    yield FaultModel(f"{early} bottom: {low}", SATURATED, np.maximum(right, low))
    yield FaultModel(f"{early} top and the bottom: {low} and {high}", SATURATED, np.clip(right, low, high))
    integers = (np.clip(rounded, -(2.0**31), 2.0**31) + codes.zero_point).astype(np.int64)
    yield FaultModel("wrap-around instead of saturation", SATURATED, integers.astype(np.uint8).view(codes.dtype))


def tails(size: int) -> list[int]:
    """Return the numbers of last elements out of `size` that a loop over vector lanes may omit, and 1."""
    return sorted({1, *(size % lanes for lanes in TAIL_LANES)} - {0})


def toward_zero(exact: Real) -> Single:
    """Return the next float32 on the side of zero, or the number itself."""
    nearest = exact.astype(np.float32)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(exact)
    return np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest)


def through_float16(v: Single) -> Single:
    """Return the values rounded to float16, as float32."""
    return v.astype(np.float16).astype(np.float32)


def other_zero_points(right: int) -> list[int]:
    """Return zero points that are taken by mistake."""
    return [other for other in (0, 128, -128, 127) if other != right]
