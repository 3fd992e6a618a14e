"""ConvTranspose in MLIR: the sums of a convolution over the image with zeros between its values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.conv_transpose import ConvTranspose
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.float_sums import bias_of, multiply_add
from harness.targets.iree.lowering import IreeLowering
from harness.targets.iree.windows import convolved, spread


class ConvTransposeLowering(IreeLowering[ConvTranspose]):
    """A product with a zero between values changes no sum: a sum begins with a bias that is no -0."""

    operator = ConvTranspose

    def emit(self, layer: ConvTranspose, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops, then put the results, which are turned around, into their order."""
        images, window, order = spread(function, inputs[0], layer.window, layer.input.shape)
        made = convolved(layer, function, images, window, bias_of(layer, function), multiply_add, products=True)
        channels = np.arange(layer.weights.shape[1])[:, None, None] * order.size
        return function.gathered(made, (channels + order).reshape(layer.output.shape))
