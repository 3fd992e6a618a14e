"""Clip in TFLite: MAXIMUM, then MINIMUM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.clip import Clip
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class ClipLowering(LiteRtLowering[Clip]):
    """A comparison rounds nothing."""

    operator = Clip

    def emit(self, layer: Clip, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add both operators."""
        [x] = inputs
        raised = limited(graph, "MAXIMUM", x, layer.low, f"{layer.output.name}/raised")
        return limited(graph, "MINIMUM", raised, layer.high, layer.output.name)


def limited(graph: Graph, operator: str, x: Value, limit: float, name: str) -> Value:
    """Return the larger or the smaller of each value and a limit, a number of the activation."""
    number = np.array([limit], np.float32) if x.dtype == np.float32 else np.array([int(limit) - x.offset], np.int8)
    constant = graph.constant(f"{name}/limit", number, graph.tensors[x.tensor].scales)
    return graph.call(operator, [x.tensor, constant], name, x)
