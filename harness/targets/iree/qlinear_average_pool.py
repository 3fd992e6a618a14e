"""QLinearAveragePool in MLIR: the float32 sum of each window, two quotients, the zero point, one rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.qlinear_average_pool import QLinearAveragePool
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, quantised
from harness.targets.iree.windows import padded, pooled


class QLinearAveragePoolLowering(IreeLowering[QLinearAveragePool]):
    """The terms are a table of all codes, so that no product is part of a sum.

    A value outside the image is the zero point, whose term is 0 and changes no sum.
    """

    operator = QLinearAveragePool

    def emit(self, layer: QLinearAveragePool, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        terms = function.constant("terms", layer.x.dequantised(layer.dtype))
        images = padded(function, inputs[0], layer.window, layer.x.zero_point)
        init = function.filled(0, (*images.shape[:2], *layer.window.output), np.dtype(np.float32))

        def add(block: Block, code: Scalar, found: Scalar) -> Scalar:
            return block("arith.addf", found, block.entry(terms, code, layer.dtype), name="sum")

        def finish(block: Block, total: Scalar, count: Scalar) -> Scalar:
            mean = block("arith.divf", total, count, name="mean")
            v = block.quotient(mean, block.number(layer.y.scale, name="scale"), name="v")
            v = block("arith.addf", v, block.number(layer.y.zero_point, name="zero_point"))
            return quantised(block, v, 0, layer.dtype)

        sums = pooled(function, images, layer.window, init, add)
        count = function.constant("count", layer.counts().astype(np.float32).reshape(layer.window.output))
        made = function.elementwise(layer.dtype, sums.shape, [sums, count], finish, products=True)
        return function.reshape(made, (function.vectors, *layer.output.shape))
