"""QLinearConv in CUDA: a thread computes an output in the layer's own kernel; in a fused one groups of four channels.

Weights are int8: from uint8 weights and their zero point 128 is subtracted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.qlinear_conv import QLinearConv
from harness.targets.contraction import offset, origin_of_multiplier, origin_of_weights, signed_weights
from harness.targets.cuda import tensor
from harness.targets.cuda.code import FUSED_THREADS, LayerKernel, c_type, window
from harness.targets.cuda.contraction import ContractionLowering, finish_four, padded, zero_points
from harness.targets.generated import Table, TaskView

TILINGS = ((2, 4), (2, 2), (1, 4), (1, 2), (1, 1))
"""Groups of four channels and numbers of positions that a thread can compute, the most products per access first."""


class QLinearConvLowering(ContractionLowering[QLinearConv]):
    """The weights have one row for each channel, or for each group of four."""

    operator = QLinearConv

    def tensor_kernel(self, task: TaskView) -> LayerKernel:
        """Compute tiles of positions and channels, unless channels are in groups."""
        layer: Any = task.layer
        if layer.groups > 1 or not tensor.is_wide(layer):
            return self.own_kernel(task)
        return tensor.kernel(task, window(layer.window), layer.input.shape[0])

    def fused_tables(self, layer: QLinearConv) -> tuple[Table, ...]:
        """Return the constants, filled up with zeros to groups of four channels."""
        name = layer.name
        origin = f"{origin_of_weights(layer)}, packed: a row a group of four channels, by place, then by word of inputs"
        of_offset = "bias - za * sum of weights + depth * za * zb, modulo 2^32"
        centred: tuple[Table, ...] = ()
        if _zero_point(layer):
            ones = packed(layer, np.ones_like(layer.weights, np.int8))
            centred = (
                Table(f"{name}_ones", ones, "1 in the place of each weight", computed=True),
                Table(f"{name}_weights_zero_point", np.array([_zero_point(layer)], np.int32), computed=True),
            )
        return (
            Table(f"{name}_weights", packed(layer, signed_weights(layer)[0]), origin, computed=True),
            Table(f"{name}_offset", padded(offset(layer)), of_offset, computed=True),
            Table(f"{name}_multiplier", padded(layer.multiplier), origin_of_multiplier(layer), computed=True),
            *centred,
            *zero_points(layer, "input", "output"),
        )

    def fused_function(self, layer: QLinearConv) -> str:
        """Accumulate some groups at some positions, and finish a group at one."""
        name = layer.name
        inputs, outputs = _group(layer)
        words, count = _words(layer)
        edge = str(not layer.window.inside().all()).lower()
        sizes = f"{c_type(layer.input.dtype)}, {window(layer.window)}, {edge}, {words}, {count}, {inputs}, {outputs}"
        zero_point = _zero_point(layer)
        centre = f"(const uint4 *){name}_ones, {name}_weights_zero_point[0]" if zero_point else "nullptr, 0"
        given = f"a, (const uint4 *){name}_weights, {centre}, {name}_offset, {name}_input_zero_point[0], g, p"
        made = f"Accumulators<{self.tiling(layer)}>"
        return (
            f"ONE_CODE {made} {name}_accumulate(const uint32_t *a, unsigned g, unsigned p)\n{{\n"
            f"    return convolve<{sizes}, {self.tiling(layer)}>({given});\n}}\n\n{finish_four(layer)}"
        )

    def tiling(self, layer: QLinearConv) -> str:
        """Choose the most products per access that leave no thread without work."""
        groups = -(-len(layer.multiplier) // 4)
        for together, positions in TILINGS:
            shared = together == 1 or (layer.groups == 1 and groups % together == 0)
            if shared and groups // together * -(-layer.positions // positions) >= FUSED_THREADS:
                return f"{together}, {positions}"
        return "1, 1"


def _group(layer: QLinearConv) -> tuple[int, int]:
    """Return the channels that a group reads and those that it writes."""
    return layer.input.shape[0] // layer.groups, len(layer.multiplier) // layer.groups


def _zero_point(layer: QLinearConv) -> int:
    return int(signed_weights(layer)[1][0])


def _words(layer: QLinearConv) -> tuple[int, int]:
    """Return the words of a position of the input, and how many of them a group of four channels reads."""
    inputs, outputs = _group(layer)
    channel = np.arange(len(layer.multiplier))
    first, last = channel // outputs * inputs // 4, (channel // outputs * inputs + inputs - 1) // 4
    group = channel // 4
    count = max(int(last[group == g].max() - first[group == g].min()) + 1 for g in range(group[-1] + 1))
    return -(-layer.input.shape[0] // 4), count


def packed(layer: QLinearConv, weights: Array) -> Array:
    """Return weights (K, N) as the kernel reads them: (groups of four channels, places * words * 16).

    A group has, place by place of the window and word by word of the input, four channels' weights of the four inputs
    of the word; an input of another group of the convolution, or none, has the weight 0.
    """
    (inputs, outputs), (words, count), size = _group(layer), _words(layer), layer.window.size
    groups = -(-weights.shape[1] // 4)
    g, place, word, n, c = np.indices((groups, size, count, 4, 4), sparse=True)
    first = np.minimum(4 * g // outputs * inputs // 4, words - count)
    channel = np.minimum(4 * g + n, weights.shape[1] - 1)
    term = 4 * (first + word) + c - channel // outputs * inputs
    there = (4 * g + n == channel) & (term >= 0) & (term < inputs)
    values: Array = np.where(there, weights[np.clip(term, 0, inputs - 1) * size + place, channel], 0)
    return values.astype(np.int8).reshape(groups, -1)
