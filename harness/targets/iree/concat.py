"""Concat in MLIR: the blocks of all inputs side by side."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.concat import Concat
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.lowering import IreeLowering


class ConcatLowering(IreeLowering[Concat]):
    """The axes before that of the node are one, and so are those behind it."""

    operator = Concat

    def emit(self, layer: Concat, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operation."""
        rows = function.vectors * layer.blocks
        blocks = [function.reshape(each, (rows, each.size // rows)) for each in inputs]
        return function.reshape(function.joined(blocks, 1), (function.vectors, *layer.output.shape))
