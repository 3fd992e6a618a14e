"""Functions of values at one place in MLIR: an expression for each value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from harness.operators.codes import Conversion
from harness.operators.elements import Elements
from harness.operators.exact.expression import (
    BOOL,
    COMPARISONS,
    FLOAT32,
    LEAVES,
    Expression,
    expanded,
    literal,
    ordered,
    substituted,
)
from harness.operators.pointwise import Pointwise
from harness.operators.resize_linear import ResizeLinear
from harness.targets.iree.builder import ELEMENTS, Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, order, quantised

KINDS = {**ELEMENTS, "bool": "i1"}
PREDICATES = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq"}
FLOATS = {
    "add": "arith.addf", "subtract": "arith.subf", "negate": "arith.negf", "absolute": "math.absf",
    "square_root": "math.sqrt", "floor": "math.floor", "ceiling": "math.ceil", "truncate": "math.trunc",
    "round_half_even": "math.roundeven",
}  # fmt: skip
INTEGERS = {
    "add": "arith.addi", "subtract": "arith.subi", "multiply": "arith.muli", "and": "arith.andi", "or": "arith.ori",
    "divide": "arith.divui", "xor": "arith.xori", "shift_left": "arith.shli", "shift_right": "arith.shrui",
}  # fmt: skip
MADE_BY_BLOCK: Mapping[str, Callable[..., Scalar]] = {
    "number": lambda block, x: block("arith.sitofp", x, to="f32", name="number"),
    "select": Block.select,
    "multiply": Block.product,
    "divide": Block.quotient,
}


class FunctionLowering(IreeLowering[Elements | Pointwise | Conversion]):
    """One value at a time, with broadcasting."""

    operator = (Elements, Pointwise, Conversion)
    excluded = (ResizeLinear,)

    def emit(self, layer: Elements | Pointwise | Conversion, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations of the definition; a constant of one number is part of them."""
        activations, values = iter(inputs), {}
        numbers: dict[str, Expression] = {}
        for operand in layer.operands:
            if operand.values is None:
                values[operand.name] = next(activations)
            elif operand.values.size > 1:
                values[operand.name] = function.constant(operand.name, operand.values)
            else:
                numbers[operand.name] = literal(operand.values.reshape(-1)[0], operand.values.dtype)
        places = {id(node): numbers[node.name] for node in ordered(layer.definition) if node.name in numbers}
        definition = substituted(layer.definition, places)

        def body(block: Block, *elements: Scalar) -> Scalar:
            dtype = layer.input.dtype
            if dtype == BOOL:
                elements = tuple(block("arith.trunci", element, to="i1", name="bit") for element in elements)
            result = operations(block, definition, dict(zip(values, elements, strict=True)))
            return block("arith.extui", result, to="i8", name="byte") if layer.dtype == BOOL else result

        shape = (function.vectors, *layer.output.shape)
        products = has_products(definition)
        return function.elementwise(layer.dtype, shape, list(values.values()), body, products=products)


def has_products(root: Expression) -> bool:
    """Return whether a definition multiplies or divides."""
    return any(node.operation in {"multiply", "divide"} for node in ordered(expanded(root)))


def operations(block: Block, root: Expression, arguments: Mapping[str, Scalar]) -> Scalar:
    """Add the operations of a definition on values by name."""
    values: dict[int, Scalar] = {}
    nodes = ordered(expanded(root))
    for node in nodes:
        operands = [values[id(operand)] for operand in node.operands]
        if node.operation in LEAVES:
            values[id(node)] = arguments[node.name]
        elif node.value is not None:
            values[id(node)] = block.number(node.value, KINDS[node.dtype.name])
        else:
            values[id(node)] = _operation(block, node, operands)
    return values[id(nodes[-1])]


def _operation(block: Block, node: Expression, operands: list[Scalar]) -> Scalar:
    name, operation = node.name or "v", node.operation
    if operation in COMPARISONS:
        kind = node.operands[0].dtype
        predicate = "" if operation == "equal" and kind.kind != "f" else order(kind)
        return block.compare(predicate + PREDICATES[operation], *operands)
    if operation in {"bits", "from_bits"}:
        return _bits(block, operands[0], node)
    if operation in {"convert", "integer"}:
        return _converted(block, operands[0], node.operands[0].dtype, node.dtype)
    if operation == "code":
        zero_point = node.operands[1].value
        assert zero_point is not None  # noqa: S101 - definitions of stages add others before the rounding
        return quantised(block, operands[0], int(zero_point), node.dtype)
    if operation in MADE_BY_BLOCK and (node.dtype == FLOAT32 or operation == "select"):
        return MADE_BY_BLOCK[operation](block, *operands)
    return block((FLOATS if node.dtype == FLOAT32 else INTEGERS)[operation], *operands, name=name)


def _bits(block: Block, x: Scalar, node: Expression) -> Scalar:
    """Return the bits of a float, or the float; float16 and float64 are bits here."""
    if FLOAT32 not in {node.dtype, node.operands[0].dtype}:
        return x
    kind, name = ("f32", "float") if node.operation == "from_bits" else ("i32", "bits")
    return block("arith.bitcast", x, to=kind, name=name)


def _converted(block: Block, x: Scalar, source: np.dtype[Any], dtype: np.dtype[Any]) -> Scalar:
    """Add the conversion of a number; integers of one size have one type here."""
    kind = KINDS[dtype.name]
    if FLOAT32 in {source, dtype}:
        sign = "u" if "u" in {source.kind, dtype.kind} else "s"
        operation = f"arith.{sign}itofp" if dtype == FLOAT32 else f"arith.fpto{sign}i"
        return block(operation, x, to=kind, name="number")
    if source.itemsize == dtype.itemsize:
        return x
    if source.itemsize > dtype.itemsize:
        return block("arith.trunci", x, to=kind, name="narrow")
    return block("arith.extui" if source.kind == "u" else "arith.extsi", x, to=kind, name="wide")


class ResizeLinearLowering(IreeLowering[ResizeLinear]):
    """The definition for values from four places."""

    operator = ResizeLinear

    def emit(self, layer: ResizeLinear, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        values = [function.gathered(inputs[0], places) for places in layer.places]
        return FunctionLowering().emit(layer, function, values)
