"""DequantizeLinear in TFLite: DEQUANTIZE."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.codes import Affine
from harness.operators.dequantize_linear import DequantizeLinear
from harness.targets.litert.graph import FLOAT, Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class DequantizeLinearLowering(LiteRtLowering[DequantizeLinear]):
    """The difference is exact, the product one operation."""

    operator = DequantizeLinear

    def emit(self, layer: DequantizeLinear, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        codes = graph.codes(inputs[0], Affine(layer.scale, layer.zero_point))
        like = Value(codes.tensor, codes.shape, codes.dtype, codes.image)
        return graph.call("DEQUANTIZE", [codes.tensor], layer.output.name, like, dtype=FLOAT)
