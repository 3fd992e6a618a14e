"""QLinearAveragePool in TFLite: the sums of float32 in the order of the node, a slice of the image for each term."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.codes import Affine
from harness.operators.qlinear_average_pool import QLinearAveragePool
from harness.targets.litert import windowed
from harness.targets.litert.graph import FLOAT, Graph, Value
from harness.targets.litert.lowering import LiteRtLowering, image

LARGEST_WINDOW = 64
"""Values of a window: each is an operator."""


class QLinearAveragePoolLowering(LiteRtLowering[QLinearAveragePool]):
    """Every operation rounds as IEEE 754 says; AVERAGE_POOL_2D of int8 rounds sums of integers."""

    operator = QLinearAveragePool

    def unsupported(self, layer: QLinearAveragePool, variant: str) -> str | None:  # noqa: ARG002 - as all variants
        """Refuse large windows, and those that TFLite cannot have."""
        if layer.window.size > LARGEST_WINDOW:
            return f"its windows have {layer.window.size} values, and each is an operator: up to {LARGEST_WINDOW}"
        return windowed.unsupported(layer.window)

    def emit(self, layer: QLinearAveragePool, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the sums and their rounding."""
        name, window = layer.output.name, layer.window
        codes = graph.codes(image(graph, inputs[0], layer), layer.x)
        padded, _ = windowed.padded(graph, codes, window, np.array(layer.x.zero_point - codes.offset, np.int8))
        terms = graph.call("DEQUANTIZE", [padded.tensor], f"{name}/terms", padded, dtype=FLOAT)
        total: Value | None = None
        for number, place in enumerate(np.ndindex(window.kernel)):
            term = self._slice(layer, graph, terms, place, f"{name}/term_{number}")
            total = term if total is None else graph.binary("ADD", total, term, f"{name}/sum_{number}")
        if total is None:
            raise ValueError("a window without values")
        count = layer.counts().astype(np.float32).reshape(1, *window.output, 1)
        count = count[:, :1, :1] if (count == count.flat[0]).all() else count
        y = np.array([layer.y.scale], np.float32)
        mean = graph.binary("DIV", total, count, f"{name}/mean")
        scaled = graph.binary("DIV", mean, y, f"{name}/scaled")
        zero_point = np.array([layer.y.zero_point], np.float32)
        moved = graph.binary("ADD", scaled, zero_point, f"{name}/moved")
        whole = graph.call("ROUND", [moved.tensor], f"{name}/whole", moved)
        differences = graph.binary("SUB", whole, zero_point, f"{name}/differences")
        return graph.rounded(differences, Affine(layer.y.scale, layer.y.zero_point), layer.dtype, name)

    @staticmethod
    def _slice(layer: QLinearAveragePool, graph: Graph, x: Value, place: tuple[int, ...], name: str) -> Value:
        window, channels = layer.window, layer.input.shape[0]
        begin = [0, *(at * step for at, step in zip(place, window.dilation, strict=True)), 0]
        size = [(count - 1) * stride + 1 for count, stride in zip(window.output, window.stride, strict=True)]
        end = [1, *(first + length for first, length in zip(begin[1:3], size, strict=True)), channels]
        strides = [1, *window.stride, 1]
        tables = [
            graph.constant(f"{name}/{role}", np.array(values, np.int32))
            for role, values in (("begin", begin), ("end", end), ("strides", strides))
        ]
        options = {"beginMask": 0, "endMask": 0, "ellipsisMask": 0, "newAxisMask": 0, "shrinkAxisMask": 0}
        like = Value(x.tensor, x.shape, x.dtype, (channels, *window.output))
        shape = (1, *window.output, channels)
        return graph.call("STRIDED_SLICE", [x.tensor, *tables], name, like, shape=shape, options=options)
