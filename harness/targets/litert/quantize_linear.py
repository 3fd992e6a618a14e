"""QuantizeLinear in TFLite: DIV, ROUND, MUL and QUANTIZE, because QUANTIZE alone multiplies by 1 / scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.codes import Affine
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class QuantizeLinearLowering(LiteRtLowering[QuantizeLinear]):
    """Every operation rounds as IEEE 754 says."""

    operator = QuantizeLinear

    def emit(self, layer: QuantizeLinear, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the division and the rounding."""
        [x] = inputs
        quotient = graph.binary("DIV", x, np.array([layer.scale], np.float32), f"{layer.output.name}/quotient")
        return graph.rounded(quotient, Affine(layer.scale, layer.zero_point), layer.dtype, layer.output.name)
