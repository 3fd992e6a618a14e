"""HardSigmoid in TFLite: MUL, ADD, MINIMUM and MAXIMUM, so that no rounding changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.hard_sigmoid import HardSigmoid
from harness.targets.litert.clip import limited
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class HardSigmoidLowering(LiteRtLowering[HardSigmoid]):
    """Two IEEE 754 operations and two comparisons for each value."""

    operator = HardSigmoid

    def emit(self, layer: HardSigmoid, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operators."""
        return hard_sigmoid(graph, inputs[0], layer.alpha, layer.beta, layer.output.name)


def hard_sigmoid(graph: Graph, x: Value, alpha: np.float32, beta: np.float32, name: str) -> Value:
    """Return max(0, min(1, alpha * x + beta))."""
    product = graph.binary("MUL", x, np.array([alpha], np.float32), f"{name}/product")
    moved = graph.binary("ADD", product, np.array([beta], np.float32), f"{name}/sum")
    return limited(graph, "MAXIMUM", limited(graph, "MINIMUM", moved, 1, f"{name}/lowered"), 0, name)
