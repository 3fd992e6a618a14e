"""QLinearConv in C: its definition, and a kernel with vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.core.arrays import Array
from harness.operators.qlinear_conv import QLinearConv
from harness.targets.c import code
from harness.targets.c.contraction import ContractionLowering
from harness.targets.c.qgemm import LANES, QUAD, offsets
from harness.targets.contraction import origin_of_weights, signed_weights, stages, tables
from harness.targets.generated import LayerCode, Table

GROUP_BYTES = LANES * QUAD
TILES = 2  # the most LANES_TILES in kernels/c/lanes.h


class QLinearConvLowering(ContractionLowering[QLinearConv]):
    """The definition; `vector` has the instructions of kernels/c/qlinear_conv_vector.h."""

    operator = QLinearConv
    headers = (*ContractionLowering.headers, "qlinear_conv_vector.h")

    def vector(self, layer: QLinearConv, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/qlinear_conv_vector.h."""
        name, width, depth = layer.name, len(layer.multiplier), len(layer.weights)
        of_layer = _vector_tables(layer)
        zero_point = f"{name}_weights_zero_point" if signed_weights(layer)[1].any() else "NULL"
        operands = f"in, {name}_input_zero_point[0], &{name}_weights[0][0], {zero_point}, &{name}_offset[0][0]"
        accumulate = f"qlinear_conv_vector_accumulate_{layer.input.dtype}(&layer, &memory, {operands}, out);"
        values = f"{width}, {layer.positions}, in, {name}_multiplier, {name}_output_zero_point[0], out"
        groups = grouped_weights(layer).shape[1] // QUAD
        return code.two_stages(
            layer,
            sources,
            stages(layer),
            of_layer,
            f"{_memory(layer)}\n    {accumulate}",
            f"requantize_channels_vector_{layer.dtype}({values});",
            f"    qlinear_conv_vector_offset_{layer.input.dtype}({width}, {groups}, {depth}, &{name}_weights[0][0], "
            f"{zero_point}, {name}_bias, {name}_input_zero_point[0], &{name}_offset[0][0]);",
        )


def _vector_tables(layer: QLinearConv) -> tuple[Table, ...]:
    name, zero_points = layer.name, signed_weights(layer)[1][:1]
    weights, *others = tables(layer)
    origin = f"{origin_of_weights(layer)}: one row a channel, in groups of {QUAD}"
    starts = Table(f"{name}_offset", offsets(layer), "constant after init", computed=True)
    left_out = () if zero_points.any() else (f"{name}_weights_zero_point",)
    kept = (table for table in others if table.name not in left_out)
    return Table(weights.name, grouped_weights(layer), origin), starts, *kept


def adjacent(layer: QLinearConv) -> bool:
    """Return whether a group has adjacent values of a row, not of QUAD channels: the way with fewer groups."""
    inputs, (rows, columns) = layer.input.shape[0] // layer.groups, layer.window.kernel
    return inputs * rows * -(-columns // QUAD) <= -(-inputs // QUAD) * rows * columns


def grouped_weights(layer: QLinearConv) -> Array:
    """Return signed weights in the order of qlinear_conv_vector.h, filled up with zeros: (N, groups * QUAD)."""
    weights = signed_weights(layer)[0].T
    inputs = layer.input.shape[0] // layer.groups
    values = weights.reshape(len(weights), inputs, *layer.window.kernel)
    axis = 3 if adjacent(layer) else 1
    values = np.pad(values, [(0, -values.shape[at] % QUAD if at == axis else 0) for at in range(4)])
    if not adjacent(layer):
        values = values.reshape(len(weights), -1, QUAD, *layer.window.kernel).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(values.reshape(len(weights), -1))


def _memory(layer: QLinearConv) -> str:
    """Return the definitions of `layer` and `memory` (kernels/c/qlinear_conv_vector.h)."""
    window, inputs, side_by_side = layer.window, layer.input.shape[0] // layer.groups, adjacent(layer)
    if window.size == 1 and window.stride == (1, 1) and window.shape == window.output:  # one row, without its ends
        row = (1, window.positions)
        window = replace(window, shape=row, before=(0, 0), output=row)
    plane = -(-math.prod(window.reach) // GROUP_BYTES) * GROUP_BYTES
    patterns = min(window.output[1] // math.gcd(window.output[1], LANES), -(-window.positions // LANES))
    sizes = f"{layer.groups}, {inputs}, {len(layer.multiplier)}, {int(side_by_side)}, {patterns}"
    bytes_of = {
        "padded": layer.input.shape[0] * plane + 2 * GROUP_BYTES + QUAD * window.dilation[1],
        "units": 1 if side_by_side else QUAD * (-(-inputs // QUAD) * plane + GROUP_BYTES),
        "panels": TILES * grouped_weights(layer).shape[1] * LANES,
    }
    return "\n    ".join(
        (
            f"const struct convolution layer = {{{{{', '.join(map(str, window.table().reshape(-1)))}}}, {sizes}}};",
            f"struct lanes_places places[{patterns + 1}] {code.ALIGNED};",
            *(f"uint8_t {name}[{size}] {code.ALIGNED};" for name, size in bytes_of.items()),
            f"const struct convolution_memory memory = {{places, {', '.join(bytes_of)}}};",
        )
    )
