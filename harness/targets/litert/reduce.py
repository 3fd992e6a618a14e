"""ReduceSum, ReduceMean, ReduceMax and ReduceMin in TFLite: SUM, MEAN, REDUCE_MAX and REDUCE_MIN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.operators.reduce import CHOOSING, Reduce
from harness.targets.base import Claim
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering

OPERATORS: Mapping[str, str] = {
    "ReduceSum": "SUM",
    "ReduceMean": "MEAN",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
}


class ReduceLowering(LiteRtLowering[Reduce]):
    """Sums have another order."""

    operator = Reduce

    def claim_of(self, layer: Reduce) -> Claim:
        """Return EXACT for an operator that chooses a value."""
        return Claim.EXACT if layer.operator in CHOOSING else Claim.BOUNDED

    def unsupported(self, layer: Reduce, variant: str) -> str | None:  # noqa: ARG002 - all variants
        """Refuse an operator that TFLite does not have."""
        return None if layer.operator in OPERATORS else f"TFLite has no {layer.operator}; it has {', '.join(OPERATORS)}"

    def emit(self, layer: Reduce, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator over the axes of ONNX."""
        x = graph.plain(inputs[0], (1, *layer.input.shape))
        axes = graph.constant(f"{layer.output.name}/axes", np.array([axis + 1 for axis in layer.axes], np.int32))
        keeps = len(layer.output.shape) == len(layer.input.shape)
        shape = (1, *layer.output.shape)
        operator = OPERATORS[layer.operator]
        return graph.call(operator, [x.tensor, axes], layer.output.name, x, shape=shape, options={"keepDims": keeps})
