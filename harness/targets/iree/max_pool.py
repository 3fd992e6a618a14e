"""MaxPool and GlobalMaxPool in MLIR: the largest value of each window, of equal ones the first."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.max_pool import MaxPool
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, chosen, ends
from harness.targets.iree.windows import padded, pooled


class MaxPoolLowering(IreeLowering[MaxPool]):
    """A value outside the image is the least of its type, which is never chosen before one of the image."""

    operator = MaxPool

    def emit(self, layer: MaxPool, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        [x] = inputs
        least, _ = ends(x.dtype)
        images = padded(function, x, layer.window, least)
        init = function.filled(least, (*images.shape[:2], *layer.window.output), x.dtype)

        def body(block: Block, value: Scalar, found: Scalar) -> Scalar:
            return chosen(block, value, found, x.dtype, largest=True)

        made = pooled(function, images, layer.window, init, body)
        return function.reshape(made, (function.vectors, *layer.output.shape))
