"""Gemm of float32 in TFLite: FULLY_CONNECTED, whose sums have another order."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.gemm import Gemm
from harness.operators.mat_mul import MatMul
from harness.targets.base import Claim
from harness.targets.litert import dense
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering
from harness.targets.litert.sums import Sums


class GemmLowering(LiteRtLowering[Gemm]):
    """The rows of the weights have the order of the stored input."""

    operator = (Gemm, MatMul)
    claim = Claim.BOUNDED

    def emit(self, layer: Gemm, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        [x] = inputs
        return dense.fully_connected(layer, graph, x, Sums(layer.weights, layer.bias, layer.output.name))
