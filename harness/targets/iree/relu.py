"""Relu in MLIR: a comparison and a selection."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.relu import Relu
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering


class ReluLowering(IreeLowering[Relu]):
    """One value at a time; -0 stays."""

    operator = Relu

    def emit(self, layer: Relu, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs

        def body(block: Block, value: Scalar) -> Scalar:
            zero = block.number(0, value.type, name="zero")
            below = block.compare("slt" if layer.of_codes else "olt", value, zero)
            return block.select(below, zero, value, name="y")

        return function.elementwise(layer.dtype, x.shape, [x], body)
