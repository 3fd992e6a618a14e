"""The specification of sums and quantisers of codes in this machine's float32, where that gives the same codes.

    y = saturate(round_half_even(float32(acc) * m) + zero_point)

The specification decides this rounding in integers, by thresholds.  Product, clamp and rounding rise with acc, so that
float32 gives the same code for every acc if it does on both sides of every threshold, which is checked first.
"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Evaluate, Layer
from harness.operators.contraction import Contraction
from harness.operators.exact import quantised, saturate
from harness.operators.quantize_linear import QuantizeLinear

FLOAT32_INTEGERS = 1 << 24
"""Float32 holds every integer up to this one."""


def prepared(layer: Layer) -> Evaluate:
    """Return the specification's function of a layer; the one in float32 only if all thresholds agree with it."""
    if isinstance(layer, Contraction) and layer.dtype.kind in "iu" and agrees(layer):
        return _sum(layer)
    if isinstance(layer, QuantizeLinear) and not layer.rounded.check(layer.thresholds()[None])[1]:
        return lambda x: saturate(x / layer.scale, layer.dtype, layer.zero_point)
    return layer.prepare()


def agrees(layer: Contraction) -> bool:
    """Return whether float32 gives the specified code on both sides of every threshold of every channel."""
    bounds = layer.accumulator()
    if max(-bounds.low, bounds.high) > FLOAT32_INTEGERS or not (layer.multiplier > 0).all():
        return False
    low, high = layer.accumulator_bounds()
    for channel, thresholds in enumerate(layer.thresholds().astype(np.int64)):
        beside = np.concatenate([thresholds, thresholds - 1])
        acc = np.clip(beside, low[channel], high[channel])
        specified = quantised(np.searchsorted(thresholds, acc, side="right"), layer.dtype)
        v = acc.astype(np.float32) * layer.multiplier[channel]
        if (saturate(v, layer.dtype, layer.y_zero_point) != specified).any():
            return False
    return True


def _sum(layer: Contraction) -> Evaluate:
    """Return the function of a sum whose partial sums are integers that float32 holds, so that no sum is rounded."""
    weights = (layer.weights.astype(np.int64) - layer.weights_zero_point).astype(np.float32)
    bias, multiplier = layer.spread(layer.bias).astype(np.float32), layer.spread(layer.multiplier)
    limits, zero_point = np.iinfo(layer.dtype), layer.y_zero_point
    low, high = (np.float32(limit - zero_point) for limit in (limits.min, limits.max))
    a_zero_point = np.float32(layer.a_zero_point)

    def evaluate(a: Array) -> Array:
        v = layer.contract(a.astype(np.float32) - a_zero_point, weights)
        v += bias
        v *= multiplier
        np.clip(v, low, high, out=v)
        np.rint(v, out=v)
        v += np.float32(zero_point)
        codes: Array = v.astype(layer.dtype)
        return codes

    return evaluate
