"""HardSwish in TFLite: the operators of HardSigmoid, then MUL, so that no rounding changes; HARD_SWISH divides by 6."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.hard_swish import ALPHA, BETA, HardSwish
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.hard_sigmoid import hard_sigmoid
from harness.targets.litert.lowering import LiteRtLowering


class HardSwishLowering(LiteRtLowering[HardSwish]):
    """Three IEEE 754 operations and two comparisons for each value."""

    operator = HardSwish

    def emit(self, layer: HardSwish, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operators."""
        [x] = inputs
        return graph.binary(
            "MUL", x, hard_sigmoid(graph, x, ALPHA, BETA, f"{layer.output.name}/factor"), layer.output.name
        )
