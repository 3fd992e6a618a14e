"""Softmax of float32 in TFLite: SOFTMAX along the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.softmax import Softmax
from harness.targets.base import Claim
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class SoftmaxLowering(LiteRtLowering[Softmax]):
    """LiteRT's own approximation."""

    operator = Softmax
    claim = Claim.BOUNDED

    def emit(self, layer: Softmax, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator; the axis is last if it is that of channels of an image, or ONNX's last one."""
        [x] = inputs
        image, name, length = x.image, layer.output.name, layer.count
        if image is not None and length == image[0] and layer.inner == image[1] * image[2]:
            stored = graph.reshape(x, (1, *image[1:], image[0]))
            return graph.call("SOFTMAX", [stored.tensor], name, stored, options={"beta": 1.0})
        if layer.inner == 1:
            rows = graph.plain(x, (x.size // length, length))
            return graph.call("SOFTMAX", [rows.tensor], name, rows, options={"beta": 1.0})
        outer = x.size // (length * layer.inner)
        channels = (outer * length, 1, layer.inner)
        if outer > 1:
            parts = graph.plain(x, (outer, length, layer.inner))
            last = graph.transpose(parts, (0, 2, 1))
            made = graph.call("SOFTMAX", [last.tensor], f"{name}/rows", last, options={"beta": 1.0})
            return graph.renamed(graph.reshape(graph.transpose(made, (0, 2, 1)), (1, x.size)), name)
        stored = graph.as_image(x, channels)
        return graph.call("SOFTMAX", [stored.tensor], name, stored, options={"beta": 1.0})
