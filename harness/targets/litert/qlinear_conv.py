"""QLinearConv in TFLite: CONV_2D or DEPTHWISE_CONV_2D."""

from __future__ import annotations

from harness.operators.qlinear_conv import QLinearConv
from harness.targets.litert import windowed
from harness.targets.litert.contraction import ContractionLowering
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.sums import Sums


class QLinearConvLowering(ContractionLowering[QLinearConv]):
    """A value outside the image has the zero point, which PAD of int8 writes."""

    operator = QLinearConv

    def unsupported(self, layer: QLinearConv, variant: str) -> str | None:
        """Refuse windows that TFLite cannot have."""
        if windowed.reads_more(layer.window):
            return "TFLite would compute more windows than the node"
        return super().unsupported(layer, variant)

    def sums(self, layer: QLinearConv, graph: Graph, x: Value, sums: Sums) -> Value:
        """Add the convolution."""
        return windowed.convolve(layer, graph, x, sums)
