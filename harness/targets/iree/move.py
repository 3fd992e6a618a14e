"""Operators that move values in MLIR: a loop that takes each value from its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from harness.operators.move import Move
from harness.targets.iree.function import Function, Value
from harness.targets.iree.lowering import IreeLowering

M = TypeVar("M", bound=Move)


class MoveLowering(IreeLowering[M]):
    """The places are a table."""

    def emit(self, layer: M, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loop."""
        return function.gathered(inputs[0], layer.places, layer.filler)
