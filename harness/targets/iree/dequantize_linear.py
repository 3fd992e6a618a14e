"""DequantizeLinear in MLIR: an integer difference, then one product."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.dequantize_linear import DequantizeLinear
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, centred


class DequantizeLinearLowering(IreeLowering[DequantizeLinear]):
    """One value at a time."""

    operator = DequantizeLinear

    def emit(self, layer: DequantizeLinear, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs

        def body(block: Block, code: Scalar) -> Scalar:
            difference = centred(block, code, x.dtype, layer.zero_point)
            number = block("arith.sitofp", difference, to="f32", name="number")
            return block.product(number, block.number(layer.scale, name="scale"), name="y")

        return function.elementwise(layer.dtype, x.shape, [x], body, products=True)
