"""PRelu in MLIR: a product below 0."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.p_relu import PRelu
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering


class PReluLowering(IreeLowering[PRelu]):
    """One value at a time; -0 stays."""

    operator = PRelu

    def emit(self, layer: PRelu, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs

        def body(block: Block, value: Scalar, slope: Scalar) -> Scalar:
            below = block.compare("olt", value, block.number(0, name="zero"))
            return block.select(below, block.product(slope, value), value, name="y")

        slope = function.constant("slope", layer.slope)
        return function.elementwise(layer.dtype, x.shape, [x, slope], body, products=True)
