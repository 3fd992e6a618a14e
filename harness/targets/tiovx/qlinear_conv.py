"""QLinearConv on a core: sums in int32 over windows of a tile, then thresholds of each channel."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array
from harness.operators.qlinear_conv import QLinearConv
from harness.targets import contraction
from harness.targets.contraction import origin_of_weights, reaches_sentinel, signed_weights, too_deep
from harness.targets.generated import Stage, Table
from harness.targets.tiovx import windows
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import FLIP, Constants, with_head
from harness.targets.tiovx.qgemm import QUAD, offset


class QLinearConvLowering(TiovxLowering[QLinearConv]):
    """Multiply four values of 16 windows at a time (kernels/c/integer/dot4.h)."""

    operator = QLinearConv
    kernel = "KERNEL_QLINEAR_CONV"

    def inexact(self, layer: QLinearConv) -> str | None:
        """Refuse accumulators that reach the largest int32, and sums that could leave int32."""
        return reaches_sentinel(layer) or too_deep(layer)

    def stages(self, layer: QLinearConv) -> tuple[Stage, ...]:
        """Return the stages from quantised values to sums, and from sums to the output."""
        return contraction.stages(layer)

    def constants(self, layer: QLinearConv) -> Constants:
        """Return offsets, zero points, thresholds, weights with one row for each channel, and windows."""
        name, (weights, zero_points) = layer.name, signed_weights(layer)
        origin = "bias[n] - za * sum_k (b[n][k] - zb)"
        parts = {"OFFSET": Table(f"{name}_offset", offset(layer), origin)}
        if zero_points.any():
            parts["ZERO_POINTS"] = Table(f"{name}_weights_zero_point", zero_points)
        origin = "of each channel the least accumulators that become each code above the lowest"
        parts["TABLE"] = Table(f"{name}_thresholds", layer.thresholds(), origin)
        origin = f"{origin_of_weights(layer)}, one row a channel, in whole quads"
        parts["WEIGHTS"] = Table(f"{name}_weights", _rows(weights), origin)
        parts["WINDOW"] = windows.part(
            name,
            layer.window,
            outside=layer.a_zero_point + (FLIP if layer.input.dtype == np.int8 else 0),
            groups=layer.groups,
            inputs=layer.input.shape[0] // layer.groups,
            outputs=len(layer.multiplier) // layer.groups,
        )
        return with_head(layer, parts)


def _rows(weights: Array) -> Array:
    """Return int8 (K, N) as rows of N channels, filled up with zeros to whole quads."""
    return np.ascontiguousarray(np.pad(weights.T, [(0, 0), (0, -len(weights) % QUAD)]))
