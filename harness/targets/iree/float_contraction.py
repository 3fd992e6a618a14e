"""Sums of float32 products in MLIR: from the bias on, in the order of the formula, each operation rounded.

IREE 3.13 does not compile the loops of stages for sums of several axes that begin with other values than 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.conv import FloatConvolution
from harness.operators.conv_transpose import ConvTranspose
from harness.operators.float_contraction import FloatContraction
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering
from harness.targets.iree.windows import convolved, dense, padded, spread


class ConvTransposeLowering(IreeLowering[ConvTranspose]):
    """The loops of a convolution."""

    operator = ConvTranspose

    def emit(self, layer: ConvTranspose, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        return sums(layer, function, inputs[0])


def sums(layer: FloatContraction, function: Function, x: Value) -> Value:
    """Add the loops; the axes of a sum are the innermost ones, and a value outside the image is 0.

    ConvTranspose is the convolution of the image with zeros between its values, which change no sum, as it begins with
    a bias that is no -0; the results are turned around.
    """
    bias = function.constant("bias", layer.bias + np.float32(0))  # -0 counts as 0
    if isinstance(layer, ConvTranspose):
        images, window, order = spread(function, x, layer.window, layer.input.shape)
        result = convolved(layer, function, images, window, bias, _multiply_add, products=True)
        channels = np.arange(layer.weights.shape[1])[:, None, None] * order.size
        return function.gathered(result, (channels + order).reshape(layer.output.shape))
    if isinstance(layer, FloatConvolution):
        images = padded(function, x, layer.window, 0)
        result = convolved(layer, function, images, layer.window, bias, _multiply_add, products=True)
    else:
        result = dense(layer, function, x, bias, _multiply_add, products=True)
    return function.reshape(result, (function.vectors, *layer.output.shape))


def _multiply_add(block: Block, a: Scalar, weight: Scalar, acc: Scalar) -> Scalar:
    """Add a product and a sum, which are rounded one after the other."""
    return block("arith.addf", acc, block.product(a, weight), name="sum")
