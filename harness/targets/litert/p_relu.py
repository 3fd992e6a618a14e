"""PRelu in TFLite: PRELU."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.p_relu import PRelu
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering, broadcast


class PReluLowering(LiteRtLowering[PRelu]):
    """One product of each negative value."""

    operator = PRelu

    def emit(self, layer: PRelu, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator; its slopes have the axes of the input without the first."""
        [x] = inputs
        slopes = broadcast(graph, layer.slope, layer, x, f"{layer.output.name}/slopes")
        return graph.call("PRELU", [x.tensor, slopes], layer.output.name, x)
