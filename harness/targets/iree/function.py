"""Functions of one float32 in MLIR: an expression for each value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from harness.operators.base import Layer
from harness.operators.exact.expression import COMPARISONS, FLOAT32, LEAVES, Expression, expanded, ordered
from harness.operators.pointwise import Pointwise
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering

L = TypeVar("L", bound=Layer)
PREDICATES = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq"}
FLOATS = {
    "add": "arith.addf", "subtract": "arith.subf", "negate": "arith.negf", "absolute": "math.absf",
    "square_root": "math.sqrt", "floor": "math.floor", "ceiling": "math.ceil", "truncate": "math.trunc",
    "round_half_even": "math.roundeven",
}  # fmt: skip
INTEGERS = {
    "add": "arith.addi", "subtract": "arith.subi", "multiply": "arith.muli", "and": "arith.andi", "or": "arith.ori",
    "xor": "arith.xori", "shift_left": "arith.shli", "shift_right": "arith.shrui",
}  # fmt: skip
MADE_BY_BLOCK: Mapping[str, Callable[..., Scalar]] = {
    "select": Block.select,
    "multiply": Block.product,
    "divide": Block.quotient,
    "from_bits": lambda block, x: block("arith.bitcast", x, to="f32", name="float"),
}


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


class PointwiseLowering(FunctionLowering[Pointwise]):
    """One value at a time."""

    operator = Pointwise

    def compute(self, layer: Pointwise, block: Block, x: Scalar) -> Scalar:
        """Add the operations of the definition on a value."""
        attributes = {name: block.number(number, name=name) for name, number in layer.constants().items()}
        return operations(block, layer.definition, {"x": x, **attributes})


def operations(block: Block, root: Expression, arguments: Mapping[str, Scalar]) -> Scalar:
    """Add the operations of a definition on values by name."""
    values: dict[int, Scalar] = {}
    nodes = ordered(expanded(root))
    for node in nodes:
        operands = [values[id(operand)] for operand in node.operands]
        if node.operation in LEAVES:
            values[id(node)] = arguments[node.name]
        elif node.value is not None:
            values[id(node)] = block.number(node.value, "f32" if node.dtype == FLOAT32 else "i32")
        else:
            values[id(node)] = _operation(block, node, operands)
    return values[id(nodes[-1])]


def _operation(block: Block, node: Expression, operands: list[Scalar]) -> Scalar:
    name, operation = node.name or "v", node.operation
    if operation in COMPARISONS:
        order = {"f32": "o", "i32": "" if operation == "equal" else "u"}[operands[0].type]
        return block.compare(order + PREDICATES[operation], *operands)
    if operation == "bits":
        return block("arith.bitcast", operands[0], to="i32", name="bits")
    if operation in MADE_BY_BLOCK and (node.dtype == FLOAT32 or operation == "select"):
        return MADE_BY_BLOCK[operation](block, *operands)
    return block((FLOATS if node.dtype == FLOAT32 else INTEGERS)[operation], *operands, name=name)
