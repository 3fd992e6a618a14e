"""AveragePool and GlobalAveragePool in MLIR: the float32 sum of each window, then a division."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.average_pool import AveragePool
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering
from harness.targets.iree.windows import padded, pooled


class AveragePoolLowering(IreeLowering[AveragePool]):
    """A value outside the image is 0, which changes no sum."""

    operator = AveragePool

    def emit(self, layer: AveragePool, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops, and the quotients by the counts of the positions."""
        images = padded(function, inputs[0], layer.window, 0)
        init = function.filled(0, (*images.shape[:2], *layer.window.output), layer.dtype)

        def body(block: Block, value: Scalar, found: Scalar) -> Scalar:
            return block("arith.addf", found, value, name="sum")

        sums = pooled(function, images, layer.window, init, body)
        count = function.constant("count", layer.count.reshape(layer.window.output))

        def divide(block: Block, total: Scalar, number: Scalar) -> Scalar:
            return block.quotient(total, number, name="y")

        made = function.elementwise(layer.dtype, sums.shape, [sums, count], divide, products=True)
        return function.reshape(made, (function.vectors, *layer.output.shape))
