"""QLinearConv in MLIR: sums over windows; a value outside the image is the zero point."""

from __future__ import annotations

from typing import ClassVar

from harness.operators.base import Layer
from harness.operators.qlinear_conv import QLinearConv
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.contraction import ContractionLowering, product
from harness.targets.iree.windows import convolved, padded


class QLinearConvLowering(ContractionLowering[QLinearConv]):
    """Channels of a group, rows and columns of the kernel are the innermost loops."""

    operator: ClassVar[type[Layer]] = QLinearConv

    def sums(self, layer: QLinearConv, function: Function, x: Value, bias: Value) -> Value:
        """Add the loops."""
        others, body = product(layer, function, x)
        images = padded(function, x, layer.window, layer.a_zero_point)
        return convolved(layer, function, images, layer.window, bias, body, others)
