"""Operators that combine any number of float32 operands from left to right, in MLIR."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

from harness.operators.fold import Fold
from harness.targets.iree.binary import operands
from harness.targets.iree.function import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering

F = TypeVar("F", bound=Fold)


class FoldLowering(IreeLowering[F]):
    """One loop over the values of the output."""

    def emit(self, layer: F, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""

        def body(block: Block, *values: Scalar) -> Scalar:
            return reduce(lambda first, second: self.combine(layer, block, first, second), values)

        shape = (function.vectors, *layer.output.shape)
        return function.elementwise(layer.dtype, shape, operands(function, layer.terms, inputs), body)

    @abstractmethod
    def combine(self, layer: F, block: Block, first: Scalar, second: Scalar) -> Scalar:
        """Combine two values."""
