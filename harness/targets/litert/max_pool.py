"""MaxPool in TFLite: MAX_POOL_2D, behind PADV2 where ONNX's padding is another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.max_pool import MaxPool
from harness.targets.litert import windowed
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering, image


class MaxPoolLowering(LiteRtLowering[MaxPool]):
    """Padding is the lowest value, which is chosen only where nothing else can be."""

    operator = MaxPool

    def unsupported(self, layer: MaxPool, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse windows that TFLite cannot have."""
        if max(layer.window.dilation) > 1:
            return "MAX_POOL_2D has no dilation"
        return windowed.unsupported(layer.window)

    def emit(self, layer: MaxPool, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator; SAME of TFLite pads with nothing that is chosen."""
        x = image(graph, inputs[0], layer)
        same = windowed.is_same(layer.window)
        lowest = np.array(-np.inf, np.float32) if x.dtype == np.float32 else np.array(np.iinfo(x.dtype).min, x.dtype)
        return windowed.pool(graph, "MAX_POOL_2D", x, layer.window, layer.output.name, None if same else lowest)
