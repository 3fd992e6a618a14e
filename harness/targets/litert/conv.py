"""Conv of float32 in TFLite: CONV_2D or DEPTHWISE_CONV_2D, whose sums have another order."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.conv import Conv
from harness.targets.base import Claim
from harness.targets.litert import windowed
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering
from harness.targets.litert.sums import Sums


class ConvLowering(LiteRtLowering[Conv]):
    """A value outside the image is 0."""

    operator = Conv
    claim = Claim.BOUNDED

    def unsupported(self, layer: Conv, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse windows that TFLite cannot have."""
        return "TFLite would compute more windows than the node" if windowed.reads_more(layer.window) else None

    def emit(self, layer: Conv, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the convolution."""
        [x] = inputs
        return windowed.convolve(layer, graph, x, Sums(layer.weights, layer.bias, layer.output.name))
