"""A layer as the fabric holds it: integers alone, in the order in which a kernel tells them (layer.hpp)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.targets import Table
from harness.targets.vitis import rtl


@dataclass(frozen=True, eq=False)
class Constants:
    """`sums` are weights (K, N), bias (N,) and input zero point; `rounding` levels and lowest code, or nothing.

    All are int32 on the board, where they are what the kernel has told.
    """

    sums: tuple[Table, ...]
    rounding: tuple[Table, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of it."""
        return (*self.sums, *self.rounding)


def qgemm(layer: Layer) -> QGemm:
    """The layer as what it is; TypeError for one that the target has refused."""
    if not isinstance(layer, QGemm):
        raise TypeError(layer)
    return layer


def of_layer(layer: QGemm) -> Constants:
    """What the kernel of the layer computes with."""
    weights = _table(layer, "weights", centred(layer), f"{layer.weights.dtype} weights of node {layer.name}, less zb")
    bias = _table(layer, "bias", layer.bias)
    zero_point = _table(layer, "input_zero_point", np.array([layer.a_zero_point]))
    return Constants((weights, bias, zero_point), () if layer.dtype == np.float32 else _rounding(layer))


def _rounding(layer: QGemm) -> tuple[Table, ...]:
    origin = "the least accumulators that become each code, as step {} of a binary search meets them"
    levels = [
        _table(layer, f"level_{step}", level, origin.format(step))
        for step, level in enumerate(rtl.threshold_levels(thresholds(layer)))
    ]
    return (*levels, _table(layer, "lowest", np.array([np.iinfo(layer.dtype).min])))


def _table(layer: QGemm, part: str, values: Array, comment: str = "") -> Table:
    return Table(f"{layer.name}_{part}", values.astype(np.int32), comment, computed=True)


def centred(layer: QGemm) -> Array:
    """The weights less their zero points, b - zb, int32 (K, N)."""
    difference: Array = layer.weights.astype(np.int32) - layer.weights_zero_point
    return difference


def thresholds(layer: QGemm) -> Array:
    """int32 (N, 255), ascending along the codes; (1, 255) where the columns have one multiplier, and so the same."""
    steps, _ = layer.thresholds_by_multiplier()
    return steps if len(steps) == 1 else layer.thresholds()


def multiplier(layer: QGemm) -> Table:
    """Of a float32 output, (N,): what the processor scales the accumulators by."""
    return Table(f"{layer.name}_multiplier", layer.multiplier, "float32 bits of ((alpha * a_scale) * b_scale[n])")
