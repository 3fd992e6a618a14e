"""QGemm in the fabric: constants are integers, in the order in which a kernel returns them (layer.hpp)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import cast

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.targets.base import Lowering
from harness.targets.contraction import origin_of_multiplier, reaches_sentinel, too_deep
from harness.targets.generated import Table
from harness.targets.vitis import rtl


class QGemmLowering(Lowering[QGemm]):
    """All kernels of the target are for QGemm: see kernel.py, code.py and fabric.py."""

    operator = QGemm

    def unsupported(self, layer: QGemm, variant: str) -> str | None:  # noqa: ARG002 - there is one variant
        """Refuse accumulators that reach the largest int32, and sums that could leave int32."""
        return reaches_sentinel(layer) or too_deep(layer)


@dataclass(frozen=True, eq=False)
class Constants:
    """`sums` are weights (K, N), bias (N,) and input zero point; `rounding` levels and lowest code, or nothing.

    All are int32 on the board, where the kernel returns them.
    """

    sums: tuple[Table, ...]
    rounding: tuple[Table, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """All constants."""
        return (*self.sums, *self.rounding)


def qgemm(layer: Layer) -> QGemm:
    """Return the layer of a task, for type checkers: the target supports no other."""
    return cast("QGemm", layer)


def of_layer(layer: QGemm) -> Constants:
    """Return the constants of the layer's kernel."""
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
    """Return the weights less their zero points, b - zb, int32 (K, N)."""
    difference: Array = layer.weights.astype(np.int32) - layer.weights_zero_point
    return difference


def thresholds(layer: QGemm) -> Array:
    """Return thresholds, int32 (N, 255), ascending; (1, 255) if all columns have one multiplier, and so the same."""
    steps, _ = layer.thresholds_by_multiplier()
    return steps if len(steps) == 1 else layer.thresholds()


def multiplier(layer: QGemm) -> Table:
    """Return the factors of accumulators for a float32 output, (N,); the processor multiplies."""
    return Table(f"{layer.name}_multiplier", layer.multiplier, origin_of_multiplier(layer))


def gemms(network: Network) -> tuple[QGemm, ...]:
    """Return the network's QGemms, each of which reads the one before.

    RequestError if there is none, or if one reads something else: the core has no branches.
    """
    found = tuple(layer for layer in network.layers if isinstance(layer, QGemm))
    if not found:
        raise RequestError("the network has no QGemm", "take one that has")
    for before, layer in itertools.pairwise(found):
        if layer.sources != (before.output.name,):
            raise RequestError(
                f"layer {layer.name} does not read {before.name}",
                "the RTL core takes QGemms in a row; take such a network",
            )
    return found
