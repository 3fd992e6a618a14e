"""Gemm of float32 in TFLite: FULLY_CONNECTED, whose sums have another order."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.gemm import Gemm
from harness.targets.base import Claim
from harness.targets.litert import dense
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class GemmLowering(LiteRtLowering[Gemm]):
    """The rows of the weights have the order of the stored input."""

    operator: type[Gemm] = Gemm
    claim = Claim.BOUNDED

    def emit(self, layer: Gemm, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        [x] = inputs
        return dense.fully_connected(layer, graph, x, layer.weights, layer.bias, (None, None), layer.output.name, None)
