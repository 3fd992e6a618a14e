"""QLinearConv in C: a stage that accumulates and a stage that rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from harness.core.arrays import Array
from harness.operators.qlinear_conv import QLinearConv
from harness.operators.window import Window
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.c.qgemm import LANES, QUAD, offsets
from harness.targets.contraction import origin_of_multiplier, origin_of_weights, signed_weights, stages
from harness.targets.generated import LayerCode, Table, literal

GROUP_BYTES = LANES * QUAD
TILES = 2  # the most LANES_TILES in kernels/c/lanes.h


class QLinearConvLowering(CLowering[QLinearConv]):
    """Weights have one row for each channel of the output."""

    operator = QLinearConv
    headers = ("qlinear_conv.h", "qlinear_conv_vector.h")

    def unsupported(self, layer: QLinearConv, variant: str) -> str | None:
        """Refuse unrolled code that no compiler finishes."""
        return code.too_long(len(layer.weights) * layer.size, variant)

    def plain(self, layer: QLinearConv, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/qlinear_conv.h."""
        name, width = layer.name, len(layer.multiplier)
        inputs = layer.input.shape[0] // layer.groups
        operands = f"in, {name}_input_zero_point[0], &{name}_weights[0][0], {name}_weights_zero_point[0], {name}_bias"
        sums = (
            f"{code.window(layer.window)}\n    {prefix}qlinear_conv_accumulate_{layer.input.dtype}"
            f"(&window, {layer.groups}, {inputs}, {width}, {operands}, out);"
        )
        values = f"{width}, {layer.positions}, in, {name}_multiplier, {name}_output_zero_point[0], out"
        return code.two_stages(
            layer, sources, stages(layer), tables(layer), sums, f"{prefix}requantize_channels_{layer.dtype}({values});"
        )

    def inlined(self, layer: QLinearConv, sources: Sequence[str]) -> LayerCode:
        """Loop over channels, positions and the values of a window."""
        return code.two_stages(
            layer, sources, stages(layer), tables(layer), _accumulate_loops(layer), _finish_loops(layer)
        )

    def unrolled(self, layer: QLinearConv, sources: Sequence[str]) -> LayerCode:
        """Write every product."""
        return code.two_stages(
            layer, sources, stages(layer), (), code.assigned(_sums(layer)), _finish_statements(layer)
        )

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


def tables(layer: QLinearConv) -> tuple[Table, ...]:
    """Return all constants, the weights with one row for each channel."""
    name, (weights, zero_points) = layer.name, signed_weights(layer)
    return (
        Table(f"{name}_weights", weights.T, f"{origin_of_weights(layer)}, transposed: one row a channel"),
        Table(f"{name}_weights_zero_point", zero_points[:1].astype(np.int32)),
        Table(f"{name}_bias", layer.bias),
        Table(f"{name}_input_zero_point", np.array([layer.a_zero_point], np.int32)),
        Table(f"{name}_multiplier", layer.multiplier, origin_of_multiplier(layer)),
        Table(f"{name}_output_zero_point", np.array([layer.y_zero_point], np.int32)),
    )


def _accumulate_loops(layer: QLinearConv) -> str:
    name, window, width = layer.name, layer.window, len(layer.multiplier)
    inputs, image = layer.input.shape[0] // layer.groups, window.shape[0] * window.shape[1]
    share = width // layer.groups
    rows, columns = (
        f"const ptrdiff_t {at} = (ptrdiff_t)({position} * {stride} + {place} * {step}) - {before};"
        for at, position, stride, place, step, before in (
            ("row", "y", window.stride[0], "i", window.dilation[0], window.before[0]),
            ("column", "x", window.stride[1], "j", window.dilation[1], window.before[1]),
        )
    )
    inside = f"(row >= 0) && (row < {window.shape[0]}) && (column >= 0) && (column < {window.shape[1]})"
    place = f"(c * {window.kernel[0]} + i) * {window.kernel[1]} + j"
    value = f"in[(n / {share} * {inputs} + c) * {image} + (size_t)row * {window.shape[1]} + (size_t)column]"
    factor = f"({name}_weights[n][{place}] - {name}_weights_zero_point[0])"
    return (
        f"for (size_t n = 0; n < {width}u; ++n)\n"
        f"        for (size_t y = 0; y < {window.output[0]}u; ++y)\n"
        f"            for (size_t x = 0; x < {window.output[1]}u; ++x) {{\n"
        f"                int32_t sum = {name}_bias[n];\n"
        f"                for (size_t c = 0; c < {inputs}u; ++c)\n"
        f"                    for (size_t i = 0; i < {window.kernel[0]}u; ++i)\n"
        f"                        for (size_t j = 0; j < {window.kernel[1]}u; ++j) {{\n"
        f"                            {rows}\n                            {columns}\n"
        f"                            if ({inside})\n"
        f"                                sum += ({value} - {name}_input_zero_point[0]) * {factor};\n"
        f"                        }}\n"
        f"                out[(n * {window.output[0]} + y) * {window.output[1]} + x] = sum;\n"
        f"            }}"
    )


def _finish_loops(layer: QLinearConv) -> str:
    value = code.rounded(layer.dtype, f"(float)in[p] * {layer.name}_multiplier[n]")
    return (
        f"{code.zero_point(f'{layer.name}_output_zero_point[0]')}\n"
        f"    for (size_t n = 0; n < {len(layer.multiplier)}u; ++n)\n"
        f"        for (size_t p = n * {layer.positions}u; p < (n + 1u) * {layer.positions}u; ++p)\n"
        f"            out[p] = {value};"
    )


def _sums(layer: QLinearConv) -> Iterator[str]:
    """Yield every accumulator as a sum of products of inputs less their zero point."""
    share = len(layer.multiplier) // layer.groups
    inputs = layer.input.shape[0] // layer.groups
    centred = (layer.weights.astype(np.int32) - layer.weights_zero_point).T
    for channel, weights in enumerate(centred):
        for places in _places(layer.window, inputs, channel // share * inputs):
            terms = (f"(in[{at}] - {layer.a_zero_point}) * {weights[k]}" for k, at in places)
            yield " + ".join([str(layer.bias[channel]), *terms])


def _places(window: Window, inputs: int, first: int) -> Iterator[list[tuple[int, int]]]:
    """Yield for each position the numbers of its terms, and the places of their inputs in the image."""
    sources = window.sources(first + inputs)[first:]
    for places in sources.swapaxes(0, 1).reshape(window.positions, -1).tolist():
        yield [(k, at) for k, at in enumerate(places) if at >= 0]


def _finish_statements(layer: QLinearConv) -> str:
    multiplier = layer.spread(layer.multiplier)
    products = (f"(float)in[{n}] * {literal(each)}" for n, each in enumerate(multiplier))
    codes = code.assigned(code.rounded(layer.dtype, product) for product in products)
    return f"{code.zero_point(str(layer.y_zero_point))}\n    {codes}"
