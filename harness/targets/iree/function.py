"""Functions of one float32 in MLIR: an expression for each value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from harness.operators.base import Layer
from harness.operators.elu import Elu
from harness.operators.exact.expression import COMPARISONS, FLOAT32, Expression, expanded, ordered
from harness.operators.exp import Exp
from harness.operators.hard_sigmoid import HardSigmoid
from harness.operators.hard_swish import ALPHA, BETA, HardSwish
from harness.operators.pointwise import Pointwise
from harness.operators.sigmoid import Sigmoid
from harness.operators.tanh import Tanh
from harness.targets.iree import elementary
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering

L = TypeVar("L", bound=Layer)
ELEMENTARY: Mapping[type[Layer], Callable[[Block, Scalar], Scalar]] = {
    Exp: elementary.exp,
    Sigmoid: elementary.logistic,
    Tanh: elementary.tanh,
}

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


class ElementaryLowering(FunctionLowering[Layer]):
    """The operations of elementary.py."""

    operator = tuple(ELEMENTARY)

    def compute(self, layer: Layer, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        return ELEMENTARY[type(layer)](block, x)


class EluLowering(FunctionLowering[Elu]):
    """One value at a time; -0 stays."""

    operator = Elu

    def compute(self, layer: Elu, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        zero = block.number(0, name="zero")
        below = block.compare("olt", x, zero)
        less_one = elementary.exp_minus_one(block, block.select(below, x, zero))
        return block.select(below, block.product(block.number(layer.alpha, name="alpha"), less_one), x, name="y")


class HardSigmoidLowering(FunctionLowering[HardSigmoid]):
    """One value at a time."""

    operator = HardSigmoid

    def compute(self, layer: HardSigmoid, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        return hard_sigmoid(block, x, layer.alpha, layer.beta)


def hard_sigmoid(block: Block, x: Scalar, alpha: np.float32, beta: np.float32) -> Scalar:
    """Add max(0, min(1, alpha * x + beta))."""
    zero, one = block.number(0, name="zero"), block.number(1, name="one")
    scaled = block.product(block.number(alpha, name="alpha"), x)
    v = block("arith.addf", scaled, block.number(beta, name="beta"))
    v = block.select(block.compare("ogt", v, one), one, v)
    return block.select(block.compare("olt", v, zero), zero, v)


class HardSwishLowering(FunctionLowering[HardSwish]):
    """One value at a time."""

    operator = HardSwish

    def compute(self, layer: HardSwish, block: Block, x: Scalar) -> Scalar:  # noqa: ARG002 - it has no constants
        """Add the operations on a value."""
        return block.product(x, hard_sigmoid(block, x, ALPHA, BETA), name="y")


class PointwiseLowering(FunctionLowering[Pointwise]):
    """One value at a time."""

    operator = Pointwise

    def compute(self, layer: Pointwise, block: Block, x: Scalar) -> Scalar:
        """Add the operations of the definition on a value."""
        numbers = {name: block.number(getattr(layer, name), name=name) for name in layer.constants()}
        return computed(block, layer.definition, {"x": x, **numbers})


def computed(block: Block, root: Expression, arguments: Mapping[str, Scalar]) -> Scalar:
    """Add the operations of an expression on arguments and loads by name."""
    values: dict[int, Scalar] = {}
    nodes = ordered(expanded(root))
    for node in nodes:
        operands = [values[id(operand)] for operand in node.operands]
        if node.operation in {"argument", "load"}:
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
