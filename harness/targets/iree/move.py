"""Operators that move values in MLIR: a loop that takes each value from its place."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.move import Move
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.lowering import IreeLowering


class MoveLowering(IreeLowering[Move]):
    """The places are a table."""

    operator = Move

    def emit(self, layer: Move, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loop."""
        return function.gathered(inputs[0], layer.places, layer.filler)
