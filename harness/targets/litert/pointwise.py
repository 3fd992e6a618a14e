"""Functions of one float32 in TFLite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.activations import ALPHA, BETA, Elu, HardSigmoid, HardSwish
from harness.operators.pointwise import Pointwise
from harness.operators.sigmoid import Sigmoid, Tanh
from harness.targets.base import Claim
from harness.targets.litert.elements import limited
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering

NAMES = {"Elu": "ELU", "Sigmoid": "LOGISTIC", "Tanh": "TANH"}
"""The operators of TFLite by those of ONNX."""


class ApproximationLowering(LiteRtLowering[Pointwise]):
    """LiteRT's own approximation."""

    operator = (Elu, Sigmoid, Tanh)
    claim = Claim.BOUNDED

    def unsupported(self, layer: Pointwise, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse a factor that TFLite does not have."""
        if isinstance(layer, Elu) and layer.alpha != 1:
            return f"alpha is {layer.alpha}, and ELU has alpha 1"
        return None

    def emit(self, layer: Pointwise, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        [x] = inputs
        return graph.call(NAMES[layer.operator], [x.tensor], layer.output.name, x)


class HardSigmoidLowering(LiteRtLowering[HardSigmoid]):
    """Two IEEE 754 operations and two comparisons for each value."""

    operator = HardSigmoid

    def emit(self, layer: HardSigmoid, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operators."""
        return hard_sigmoid(graph, inputs[0], layer.alpha, layer.beta, layer.output.name)


class HardSwishLowering(LiteRtLowering[HardSwish]):
    """Three IEEE 754 operations and two comparisons for each value."""

    operator = HardSwish

    def emit(self, layer: HardSwish, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operators."""
        [x] = inputs
        factor = hard_sigmoid(graph, x, ALPHA, BETA, f"{layer.output.name}/factor")
        return graph.binary("MUL", x, factor, layer.output.name)


def hard_sigmoid(graph: Graph, x: Value, alpha: np.float32, beta: np.float32, name: str) -> Value:
    """Return max(0, min(1, alpha * x + beta))."""
    product = graph.binary("MUL", x, np.array([alpha], np.float32), f"{name}/product")
    moved = graph.binary("ADD", product, np.array([beta], np.float32), f"{name}/sum")
    return limited(graph, "MAXIMUM", limited(graph, "MINIMUM", moved, 1, f"{name}/lowered"), 0, name)
