"""Conv in MLIR: float32 sums over windows; a value outside the image is 0."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.conv import Conv
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.float_sums import bias_of, multiply_add
from harness.targets.iree.lowering import IreeLowering
from harness.targets.iree.windows import convolved, padded


class ConvLowering(IreeLowering[Conv]):
    """Channels of a group, rows and columns of the kernel are the innermost loops."""

    operator = Conv

    def emit(self, layer: Conv, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        images, bias = padded(function, inputs[0], layer.window, 0), bias_of(layer, function)
        made = convolved(layer, function, images, layer.window, bias, multiply_add, products=True)
        return function.reshape(made, (function.vectors, *layer.output.shape))
