"""QLinearConv in TFLite: CONV_2D or DEPTHWISE_CONV_2D."""

from __future__ import annotations

from harness.core.arrays import Array
from harness.model.tflite.file import Scales
from harness.operators.codes import Affine
from harness.operators.qlinear_conv import QLinearConv
from harness.targets.litert import windowed
from harness.targets.litert.contraction import ContractionLowering
from harness.targets.litert.graph import Graph, Value


class QLinearConvLowering(ContractionLowering[QLinearConv]):
    """A value outside the image has the zero point, which PAD of int8 writes."""

    operator = QLinearConv

    def unsupported(self, layer: QLinearConv, variant: str) -> str | None:
        """Refuse windows that TFLite cannot have."""
        if windowed.reads_more(layer.window):
            return "TFLite would compute more windows than the node"
        return super().unsupported(layer, variant)

    def sums(  # noqa: PLR0913 - as of the base
        self,
        layer: QLinearConv,
        graph: Graph,
        x: Value,
        weights: Array,
        bias: Array,
        scales: tuple[Scales | None, Scales | None],
        name: str,
        y: Affine | None,
    ) -> Value:
        """Add the convolution."""
        return windowed.convolve(layer, graph, x, weights, bias, scales, name, y)
