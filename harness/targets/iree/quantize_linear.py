"""QuantizeLinear in MLIR: one division, the clamp, one rounding."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, quantised


class QuantizeLinearLowering(IreeLowering[QuantizeLinear]):
    """One value at a time."""

    operator = QuantizeLinear

    def emit(self, layer: QuantizeLinear, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs

        def body(block: Block, value: Scalar) -> Scalar:
            v = block("arith.divf", value, block.number(layer.scale, name="scale"))
            return quantised(block, v, layer.zero_point, layer.dtype)

        return function.elementwise(layer.dtype, x.shape, [x], body)
