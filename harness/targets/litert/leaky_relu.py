"""LeakyRelu of float32 in TFLite: LEAKY_RELU."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.leaky_relu import LeakyRelu
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class LeakyReluLowering(LiteRtLowering[LeakyRelu]):
    """One product of each negative value."""

    operator = LeakyRelu

    def emit(self, layer: LeakyRelu, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        [x] = inputs
        return graph.call("LEAKY_RELU", [x.tensor], layer.output.name, x, options={"alpha": float(layer.alpha)})
