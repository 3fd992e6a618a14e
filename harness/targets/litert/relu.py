"""Relu in TFLite: RELU of float32, MAXIMUM of codes, whose zero point plays no part."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.relu import Relu
from harness.targets.litert.clip import limited
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class ReluLowering(LiteRtLowering[Relu]):
    """A comparison rounds nothing."""

    operator = Relu

    def emit(self, layer: Relu, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        [x] = inputs
        if layer.of_codes:
            return limited(graph, "MAXIMUM", x, 0, layer.output.name)
        return graph.call("RELU", [x.tensor], layer.output.name, x)
