"""BatchNormalization in TFLite: SUB, DIV, MUL and ADD, so that no rounding changes."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.batch_normalization import BatchNormalization
from harness.targets.litert.graph import PLAIN, Graph, Value
from harness.targets.litert.lowering import LiteRtLowering, broadcast


class BatchNormalizationLowering(LiteRtLowering[BatchNormalization]):
    """Four IEEE 754 operations for each value."""

    operator = BatchNormalization

    def emit(self, layer: BatchNormalization, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operators."""
        [value] = inputs
        steps = (("SUB", layer.mean), ("DIV", layer.deviation), ("MUL", layer.scale), ("ADD", layer.offset))
        for operator, numbers in steps:
            name = layer.output.name if operator == "ADD" else f"{layer.output.name}/{operator.lower()}"
            of_channels = numbers.reshape(-1, *(1,) * (len(layer.output.shape) - 1))
            constant = broadcast(graph, of_channels, layer, value, f"{name}/constant")
            value = graph.call(operator, [value.tensor, constant], name, value, options=PLAIN)
        return value
