"""Add, Sub, Mul and Div of float32 in MLIR, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.core.arrays import Array
from harness.operators.add import Add
from harness.operators.base import Layer
from harness.operators.div import Div
from harness.operators.mul import Mul
from harness.operators.sub import Sub
from harness.operators.terms import BinaryLayer
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering


def _sum(block: Block, a: Scalar, b: Scalar) -> Scalar:
    return block("arith.addf", a, b, name="sum")


def _difference(block: Block, a: Scalar, b: Scalar) -> Scalar:
    return block("arith.subf", a, b, name="difference")


OPERATIONS: Mapping[type[Layer], Callable[[Block, Scalar, Scalar], Scalar]] = {
    Add: _sum,
    Div: Block.quotient,
    Mul: Block.product,
    Sub: _difference,
}


class BinaryLowering(IreeLowering[BinaryLayer]):
    """One IEEE 754 operation for each value."""

    operator = tuple(OPERATIONS)

    def emit(self, layer: BinaryLayer, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operation."""
        shape = (function.vectors, *layer.output.shape)
        values, products = operands(function, layer.terms, inputs), isinstance(layer, Mul | Div)
        return function.elementwise(layer.dtype, shape, values, OPERATIONS[type(layer)], products=products)


def operands(function: Function, terms: Sequence[Array | None], inputs: Sequence[Value]) -> list[Value]:
    """Return the operands of a layer: `terms` has the constants, None for an activation."""
    given = iter(inputs)
    return [next(given) if term is None else function.constant("term", term) for term in terms]
