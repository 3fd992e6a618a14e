"""Add, Sub, Mul and Div of float32 in MLIR, with broadcasting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from harness.core.arrays import Array
from harness.operators.add import Add
from harness.operators.div import Div
from harness.operators.mul import Mul
from harness.operators.sub import Sub
from harness.operators.terms import BinaryLayer
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering

T = TypeVar("T", bound=BinaryLayer)


class BinaryLowering(IreeLowering[T]):
    """One IEEE 754 operation for each value."""

    products: ClassVar[bool] = False
    """True if the result is a product or a quotient."""

    def emit(self, layer: T, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operation."""
        found = operands(function, layer.terms, inputs)
        shape = (function.vectors, *layer.output.shape)
        return function.elementwise(layer.dtype, shape, found, self.compute, products=self.products)

    @staticmethod
    @abstractmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the operation on two values."""


def operands(function: Function, terms: Sequence[Array | None], inputs: Sequence[Value]) -> list[Value]:
    """Return the operands of a layer: `terms` has the constants, None for an activation."""
    given = iter(inputs)
    return [next(given) if term is None else function.constant("term", term) for term in terms]


class AddLowering(BinaryLowering[Add]):
    """One operation for each value."""

    operator = Add

    @staticmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the sum of two values."""
        return block("arith.addf", a, b, name="sum")


class SubLowering(BinaryLowering[Sub]):
    """One operation for each value."""

    operator = Sub

    @staticmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the difference of two values."""
        return block("arith.subf", a, b, name="difference")


class MulLowering(BinaryLowering[Mul]):
    """One operation for each value."""

    operator = Mul
    products = True

    @staticmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the product of two values."""
        return block.product(a, b)


class DivLowering(BinaryLowering[Div]):
    """One operation for each value."""

    operator = Div
    products = True

    @staticmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the quotient of two values."""
        return block.quotient(a, b)
