"""LRN of float32 in TFLite: LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.lrn import Lrn
from harness.targets.base import Claim
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering, image


class LrnLowering(LiteRtLowering[Lrn]):
    """LiteRT's own power, and its own order of sums."""

    operator = Lrn
    claim = Claim.BOUNDED

    def emit(self, layer: Lrn, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator over channels."""
        x, beta = image(graph, inputs[0], layer), layer.quarters / 4
        numbers = {"bias": float(layer.bias), "alpha": float(layer.factor), "beta": beta}
        options = {"radius": layer.length // 2, **numbers}
        return graph.call("LOCAL_RESPONSE_NORMALIZATION", [x.tensor], layer.output.name, x, options=options)
