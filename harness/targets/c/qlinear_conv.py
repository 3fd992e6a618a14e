"""QLinearConv in C: a stage that accumulates and a stage that rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.operators.qlinear_conv import QLinearConv
from harness.operators.window import Window
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.contraction import origin_of_multiplier, origin_of_weights, signed_weights, stages
from harness.targets.generated import LayerCode, Table, literal

TERM_LIMIT = 100_000
"""Products in one unrolled layer: each is about 10 bytes of code, and compilers take minutes for more."""


class QLinearConvLowering(CLowering[QLinearConv]):
    """Weights have one row for each channel of the output."""

    operator = QLinearConv
    headers = ("qlinear_conv.h",)

    def unsupported(self, layer: QLinearConv, variant: str) -> str | None:
        """Refuse unrolled code that no compiler finishes."""
        terms = len(layer.weights) * layer.size
        if variant == "unrolled" and terms > TERM_LIMIT:
            return f"{terms:,} products, but code without loops is limited to {TERM_LIMIT:,} a layer; take c:inlined"
        return None

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
    inside = f"row >= 0 && row < {window.shape[0]} && column >= 0 && column < {window.shape[1]}"
    place = f"(c * {window.kernel[0]} + i) * {window.kernel[1]} + j"
    value = f"in[(n / {share} * {inputs} + c) * {image} + (size_t)row * {window.shape[1]} + (size_t)column]"
    factor = f"({name}_weights[n][{place}] - {name}_weights_zero_point[0])"
    return (
        f"for (size_t n = 0; n < {width}; ++n)\n"
        f"        for (size_t y = 0; y < {window.output[0]}; ++y)\n"
        f"            for (size_t x = 0; x < {window.output[1]}; ++x) {{\n"
        f"                int32_t sum = {name}_bias[n];\n"
        f"                for (size_t c = 0; c < {inputs}; ++c)\n"
        f"                    for (size_t i = 0; i < {window.kernel[0]}; ++i)\n"
        f"                        for (size_t j = 0; j < {window.kernel[1]}; ++j) {{\n"
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
        f"    for (size_t n = 0; n < {len(layer.multiplier)}; ++n)\n"
        f"        for (size_t p = n * {layer.positions}; p < (n + 1) * {layer.positions}; ++p)\n"
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
    image = window.shape[0] * window.shape[1]
    numbers = np.arange(inputs * image).reshape(1, inputs, image) + first * image
    views = window.views(numbers, -1)[0]  # (inputs, *output, *kernel)
    for places in views.transpose(1, 2, 0, 3, 4).reshape(window.positions, -1).tolist():
        yield [(k, at) for k, at in enumerate(places) if at >= 0]


def _finish_statements(layer: QLinearConv) -> str:
    multiplier = layer.spread(layer.multiplier)
    products = (f"(float)in[{n}] * {literal(each)}" for n, each in enumerate(multiplier))
    codes = code.assigned(code.rounded(layer.dtype, product) for product in products)
    return f"{code.zero_point(str(layer.y_zero_point))}\n    {codes}"
