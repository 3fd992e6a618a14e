"""Operators that combine any number of float32 operands from left to right, in MLIR."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

from harness.operators.extremum import Extremum
from harness.operators.fold import Fold
from harness.operators.sum import Mean, Sum
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering
from harness.targets.iree.terms import operands

F = TypeVar("F", bound=Fold)


class FoldLowering(IreeLowering[F]):
    """One loop over the values of the output."""

    def emit(self, layer: F, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""

        def body(block: Block, *values: Scalar) -> Scalar:
            result = reduce(lambda first, second: self.combine(layer, block, first, second), values)
            return block.quotient(result, block.number(layer.divisor)) if isinstance(layer, Mean) else result

        shape, values = (function.vectors, *layer.output.shape), operands(function, layer.terms, inputs)
        return function.elementwise(layer.dtype, shape, values, body, products=isinstance(layer, Mean))

    @abstractmethod
    def combine(self, layer: F, block: Block, first: Scalar, second: Scalar) -> Scalar:
        """Combine two values."""


class SumLowering(FoldLowering[Sum]):
    """Sum of the inputs from left to right."""

    operator = (Sum, Mean)

    def combine(self, layer: Sum, block: Block, first: Scalar, second: Scalar) -> Scalar:  # noqa: ARG002
        """Add two values."""
        return block("arith.addf", first, second, name="sum")


class ExtremumLowering(FoldLowering[Extremum]):
    """Greatest or least of the inputs, from left to right."""

    operator = Extremum

    def combine(self, layer: Extremum, block: Block, first: Scalar, second: Scalar) -> Scalar:
        """Choose one of two values."""
        return block.select(block.compare("ogt" if layer.largest else "olt", second, first), second, first)
