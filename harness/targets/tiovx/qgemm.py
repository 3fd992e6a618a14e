"""QGemm on a core: sums in int32, then thresholds, or multipliers for a float32 output."""

from __future__ import annotations

import dataclasses

import numpy as np

from harness.core.arrays import Array
from harness.operators.contraction import Contraction
from harness.operators.qgemm import QGemm
from harness.targets import contraction
from harness.targets.contraction import (
    origin_of_multiplier,
    origin_of_weights,
    reaches_sentinel,
    signed_weights,
    too_deep,
)
from harness.targets.generated import Stage, Table
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import FLIP, Constants, with_head

LANES, QUAD = 16, 4  # of kernels/c/integer/dot4.h


class QGemmLowering(TiovxLowering[QGemm]):
    """Multiply four inputs at a time (kernels/c/integer/dot4.h)."""

    operator = QGemm
    kernel = "KERNEL_QGEMM"

    def inexact(self, layer: QGemm) -> str | None:
        """Refuse accumulators that reach the largest int32, and sums that could leave int32."""
        return reaches_sentinel(layer) or too_deep(layer)

    def stages(self, layer: QGemm) -> tuple[Stage, ...]:
        """Return the stages from quantised values to sums, and from sums to the output."""
        return contraction.stages(layer)

    def constants(self, layer: QGemm) -> Constants:
        """Return offsets, zero points, thresholds or multipliers, and packed weights."""
        name, (weights, zero_points) = layer.name, signed_weights(layer)
        origin = "bias[n] - za * sum_k (b[k][n] - zb[n])"
        parts = {"OFFSET": Table(f"{name}_offset", offset(layer), origin)}
        if zero_points.any():
            parts["ZERO_POINTS"] = Table(f"{name}_weights_zero_point", zero_points)
        if layer.dtype == np.float32:
            origin = origin_of_multiplier(layer)
            parts["MULTIPLIER"] = Table(f"{name}_multiplier", layer.multiplier, origin)
        else:
            origin = "of each column the least accumulators that become each code above the lowest"
            parts["TABLE"] = Table(f"{name}_thresholds", layer.thresholds(), origin)
        origin = f"{origin_of_weights(layer)}, in the order of dot4.h"
        parts["WEIGHTS"] = Table(f"{name}_weights", packed(weights), origin)
        return with_head(layer, parts)


def offset(layer: Contraction) -> Array:
    """Return acc[n] without its sums over a, modulo 2^32, uint32 (N,); int8 values of a are read as uint8, 128 more."""
    shift = FLIP if layer.input.dtype == np.int8 else 0
    return contraction.offset(dataclasses.replace(layer, a_zero_point=layer.a_zero_point + shift))


def packed(weights: Array) -> Array:
    """Return int8 (K, N) in the order of kernels/c/integer/dot4.h, one row per instruction operand: int8 (n, 64)."""
    groups, quads = (-(-size // unit) for size, unit in zip(weights.shape[::-1], (LANES, QUAD), strict=True))
    whole = np.zeros((quads * QUAD, groups * LANES), np.int8)
    whole[: weights.shape[0], : weights.shape[1]] = weights
    by_group = whole.reshape(quads, QUAD, groups, LANES).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(by_group).reshape(groups * quads, LANES * QUAD)
