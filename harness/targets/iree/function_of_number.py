"""Functions of one float32 in MLIR: an expression for each value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from harness.operators.base import Layer
from harness.targets.iree.function import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering

L = TypeVar("L", bound=Layer)


class FunctionLowering(IreeLowering[L]):
    """One value at a time."""

    def emit(self, layer: L, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs
        return function.elementwise(
            layer.dtype, x.shape, [x], lambda block, value: self.compute(layer, block, value), products=True
        )

    @abstractmethod
    def compute(self, layer: L, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
