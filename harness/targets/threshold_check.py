"""Thresholds against the formulas that they replace, in this machine's float32.

    y = saturate(round_half_even(float32(acc) * m[n]) + zy)         QGemm: tried on every accumulator that there is
    q = saturate(round_half_even(x / scale) + zero_point)           QuantizeLinear: on either side of every threshold

That is neither how the thresholds were found, by bisection in integers, nor how a core applies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import ToolError
from harness.operators import Layer, QGemm, QuantizeLinear, accumulator_bounds, specification
from harness.operators.softfloat import INFINITY_BITS

AT_ONCE = 1 << 18
THREADS = 2


@dataclass(frozen=True)
class Tried:
    """How many inputs of a layer's thresholds were tried."""

    layer: str
    cases: int


def all_layers(layers: Sequence[Layer], thresholds: Mapping[str, Array]) -> list[Tried]:
    """Try the thresholds, by the layers' names, (N, 255) of a QGemm, (1, 255) of a QuantizeLinear.

    ToolError at the first that is wrong.
    """
    todo = [layer for layer in layers if layer.name in thresholds]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda layer: _try(layer, thresholds[layer.name]), todo))


def _try(layer: Layer, thresholds: Array) -> Tried:
    if isinstance(layer, QuantizeLinear):
        return _try_quantize_linear(layer, thresholds[0])
    if isinstance(layer, QGemm):
        return _try_qgemm(layer, thresholds)
    raise TypeError(layer)


def _try_quantize_linear(layer: QuantizeLinear, thresholds: Array) -> Tried:
    """Division, clamping and rounding are monotone: what is right on either side of every threshold is so elsewhere."""
    keys = np.unique([*thresholds, *(thresholds - 1), -INFINITY_BITS, 0, INFINITY_BITS])
    keys = keys[np.abs(keys) <= INFINITY_BITS]
    x = specification.from_ordered(keys.astype(np.int64))
    wanted = _codes(x / layer.scale, layer.dtype, layer.zero_point)
    found = (np.searchsorted(thresholds, keys, side="right") + np.iinfo(layer.dtype).min).astype(layer.dtype)
    if not np.array_equal(wanted, found):
        at = int(np.flatnonzero(wanted != found)[0])
        raise _wrong(f"layer {layer.name}: {x[at]!s}", found[at], wanted[at])
    return Tried(layer.name, len(keys))


def _try_qgemm(layer: QGemm, thresholds: Array) -> Tried:
    low, high = accumulator_bounds(layer)
    for column, (first, last) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        for start in range(first, last + 1, AT_ONCE):
            _try_part(layer, column, thresholds[column], start, min(start + AT_ONCE, last + 1))
    return Tried(layer.name, int((high - low + 1).sum()))


def _try_part(layer: QGemm, column: int, thresholds: Array, start: int, stop: int) -> None:
    """Accumulators `start` to `stop` - 1 of a column."""
    acc = np.arange(start, stop, dtype=np.int32)
    wanted = _codes(acc.astype(np.float32) * layer.multiplier[column], layer.dtype, layer.y_zero_point)
    found = _staircase(thresholds, start, stop, layer)
    if not np.array_equal(wanted, found):
        at = int(np.flatnonzero(wanted != found)[0])
        raise _wrong(f"layer {layer.name}, column {column}: accumulator {start + at}", found[at], wanted[at])


def _wrong(what: str, found: object, wanted: object) -> ToolError:
    return ToolError(
        f"{what} becomes {found} by its thresholds, {wanted} by the formula",
        "this machine's float32 or the harness is wrong; run harness doctor, and report it with this line",
    )


def _codes(v: Array, dtype: np.dtype[Any], zero_point: int) -> Array:
    """saturate(round_half_even(v) + zero_point), v float32."""
    codes = np.iinfo(dtype)
    bounds = (np.float32(codes.min - zero_point), np.float32(codes.max - zero_point))
    rounded: Array = np.rint(np.clip(v, *bounds)).astype(np.int32)
    return (rounded + zero_point).astype(dtype)


def _staircase(thresholds: Array, start: int, stop: int, layer: QGemm) -> Array:
    """QMIN + #{k : t[k] <= acc} for acc = start to stop - 1."""
    inside = np.clip(thresholds.astype(np.int64), start, stop)
    lengths = np.diff(np.concatenate([[start], inside, [stop]]))
    return np.repeat(np.arange(256) + np.iinfo(layer.dtype).min, lengths).astype(layer.dtype)
