"""Cycles that the RTL core, kernels/vitis/rtl, takes for a layer, and its order of weights and thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.operators.window import Window

LEVELS = 8
"""Steps of the binary search for the number of thresholds; each has a memory."""

ACCUMULATE_CYCLES = 3
"""Cycles from the arrival of a code to its sum: read, multiply, add."""
REQUANTIZE_CYCLES = LEVELS + 1
"""Cycles from an accumulator to its code: one read per level, and the register of the code."""


class Geometry(Protocol):
    """The cycles of a layer; `source` says what predicts them."""

    source: ClassVar[str]

    @property
    def record(self) -> int:
        """The elements that enter for a vector."""

    @property
    def after_cycles(self) -> int:
        """Cycles from the last element of a vector to its last value."""

    @property
    def interval_cycles(self) -> int:
        """Cycles from a vector to the next."""


@dataclass(frozen=True)
class LayerGeometry:
    """The properties that determine the cycles of a layer: K, N, and whether its output is codes or accumulators.

    In the fabric's kernel, not in this core, it reads a record: its K codes and `others`.  Of all these it lets `kept`
    pass in front of its own values.
    """

    source: ClassVar[str] = "the cycle model of the RTL core"

    depth: int
    width: int
    codes: bool
    others: int = 0
    kept: int = 0

    @property
    def record(self) -> int:
        """The elements that enter for a vector, R: K, and those for the layers after this one."""
        return self.depth + self.others

    @property
    def pipeline_cycles(self) -> int:
        """Cycles between the last element of a vector and its first value."""
        return ACCUMULATE_CYCLES + (REQUANTIZE_CYCLES if self.codes else 0)

    @property
    def after_cycles(self) -> int:
        """Cycles between the last element of a vector and its last value."""
        return self.pipeline_cycles + self.width

    @property
    def interval_cycles(self) -> int:
        """Cycles from a vector to the next: R elements enter, while P of the vector before pass and N sums leave.

        One more cycle takes the sums over: max(R, P + N + 1), which without others is max(K, N + 1).
        """
        return max(self.record, self.kept + self.width + 1)


def shape(layer: QGemm, others: int = 0, kept: int = 0) -> LayerGeometry:
    """Return the layer's shape."""
    return LayerGeometry(layer.input.size, layer.size, layer.dtype != np.float32, others, kept)


def latency_cycles(shapes: Sequence[Geometry]) -> int:
    """Return the cycles of a single vector from its first element to its last value, both counted.

    R[first] + sum_l (3 + 9 where l ends with codes, + N[l])

    Elements that pass a layer leave it before its sums.  If each layer reads only the output of the layer before it,
    K[l + 1] = N[l], this is sum_l (K[l] + 3 + 9 where l ends with codes) + N[last].
    """
    return shapes[0].record + sum(each.after_cycles for each in shapes)


def interval_cycles(shapes: Sequence[Geometry]) -> int:
    """Return the cycles from a vector to the next without waits for elements: max_l max(R[l], P[l] + N[l] + 1)."""
    return max(each.interval_cycles for each in shapes)


def total_cycles(shapes: Sequence[Geometry], vectors: int) -> int:
    """Return the cycles from the first element of the first vector to the last value of the last one, inclusive."""
    return latency_cycles(shapes) + (vectors - 1) * interval_cycles(shapes)


def threshold_levels(thresholds: Array) -> list[Array]:
    """Return thresholds (N, 255) in the order of a search, level s as (N, 2^s): t[n][(2 j + 1) 2^(7 - s) - 1]."""
    steps = [1 << (LEVELS - 1 - level) for level in range(LEVELS)]
    return [thresholds[:, step - 1 :: 2 * step] for step in steps]


def by_positions(weights: Array, window: Window) -> Array:
    """Return weights (K, N), by channels, rows and columns, in the order of a line: by rows, columns and channels."""
    terms = weights.reshape(-1, *window.kernel, weights.shape[1])
    return terms.transpose(1, 2, 0, 3).reshape(weights.shape)


def lines(window: Window) -> int:
    """Return the rows of the line buffer."""
    return min(window.shape[0], (window.kernel[0] - 1) * window.dilation[0] + 1)


def window_sizes(window: Window, channels: int) -> dict[str, int]:
    """Return the sizes of a window over images of so many channels, as module `window` and window.hpp name them."""
    pairs = {"KERNEL": window.kernel, "STRIDE": window.stride, "DILATION": window.dilation, "BEFORE": window.before}
    axes = ("ROWS", "COLUMNS")
    both = {f"{name}_{axis}": size for name, pair in pairs.items() for axis, size in zip(axes, pair, strict=True)}
    image = {"HEIGHT": window.shape[0], "COLUMNS": window.shape[1], "CHANNELS": channels}
    return image | {"HEIGHT_OUT": window.output[0], "COLUMNS_OUT": window.output[1]} | both | {"LINES": lines(window)}
