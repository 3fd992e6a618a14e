"""Clip in MLIR: two comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.clip import Clip
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, order


class ClipLowering(IreeLowering[Clip]):
    """One value at a time; x stays where it equals a bound."""

    operator = Clip

    def emit(self, layer: Clip, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs
        kind = order(x.dtype)

        def body(block: Block, value: Scalar) -> Scalar:
            low, high = (block.number(each, value.type, name="bound") for each in (layer.low, layer.high))
            raised = block.select(block.compare(f"{kind}lt", value, low), low, value)
            return block.select(block.compare(f"{kind}gt", raised, high), high, raised, name="y")

        return function.elementwise(layer.dtype, x.shape, [x], body)
