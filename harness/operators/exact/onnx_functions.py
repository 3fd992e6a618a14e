"""Definitions as functions of ONNX, which ONNX Runtime executes for operators of domains that it does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness.operators.exact.expression import DefinitionError, Expression, ordered
from harness.operators.node import NEWEST_OPSET

RUNTIME_DOMAINS = ("", "com.microsoft")
"""The domains whose operators ONNX Runtime has."""
OPERATORS: Mapping[str, str] = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "negate": "Neg", "absolute": "Abs",
    "square_root": "Sqrt", "floor": "Floor", "ceiling": "Ceil", "round_half_even": "Round", "less": "Less",
    "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual", "equal": "Equal",
    "and": "And", "or": "Or", "xor": "Xor", "select": "Where",
}  # fmt: skip
"""The operators of ONNX by the operation of the language."""
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "exponential": ("Exp",), "exponential_minus_one": ("Exp", "Sub"), "hyperbolic_tangent": ("Tanh",),
    "logistic": ("Sigmoid",), "logarithm": ("Log",), "logarithm_of_one_plus": ("Add", "Log"),
    "error_function": ("Erf",), "sine": ("Sin",), "cosine": ("Cos",), "tangent": ("Tan",), "arctangent": ("Atan",),
    "arcsine": ("Asin",), "arccosine": ("Acos",), "hyperbolic_sine": ("Sinh",), "hyperbolic_cosine": ("Cosh",),
    "inverse_hyperbolic_sine": ("Asinh",), "inverse_hyperbolic_cosine": ("Acosh",),
    "inverse_hyperbolic_tangent": ("Atanh",),
}  # fmt: skip
"""The operators of ONNX, one after the other, by the function that a definition calls; Add and Sub are those of 1."""


def derived(
    operators: Sequence[tuple[str, str]],
    definition: Expression,
    inputs: Sequence[str],
    attributes: Mapping[str, float],
    opset: int,
) -> onnx.FunctionProto | None:
    """Return the function of the only operator of a class; None if ONNX Runtime has it."""
    [operator] = operators
    return None if operator[0] in RUNTIME_DOMAINS else function_of(operator, definition, inputs, attributes, opset)


def missing(as_function: Callable[[int, int], onnx.FunctionProto | None], inputs: int) -> str:
    """Return why a class has no function for ONNX Runtime; the empty text if it has one, or needs none."""
    try:
        as_function(inputs, NEWEST_OPSET)
    except DefinitionError as error:
        return f"has no function for ONNX Runtime: {error}"
    return ""


def function_of(
    operator: tuple[str, str],
    definition: Expression,
    inputs: Sequence[str],
    attributes: Mapping[str, float],
    opset: int,
) -> onnx.FunctionProto:
    """Return the function of an operator (domain, name) with the output `y`.

    `inputs` are arguments of the definition, `attributes` the others, with the numbers that nodes need not state.
    Raises DefinitionError for an operation on bits and other operations that ONNX does not have.
    """
    nodes = ordered(definition)
    return helper.make_function(
        *operator,
        inputs,
        ["y"],
        [*map(_attribute, attributes), *_nodes(nodes)],
        [helper.make_opsetid("", opset)],
        attribute_protos=[helper.make_attribute(name, float(number)) for name, number in attributes.items()],
    )


def _attribute(name: str) -> onnx.NodeProto:
    """Return the node that makes an attribute of the function a value of the same name."""
    node = helper.make_node("Constant", [], [name])
    node.attribute.add(name="value_float", ref_attr_name=name, type=onnx.AttributeProto.FLOAT)
    return node


def _nodes(nodes: list[Expression]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes for each operation and literal; the last one writes `y`."""
    names: dict[int, str] = {}
    one = numpy_helper.from_array(np.array(1, np.float32))
    for number, node in enumerate(nodes):
        name = "y" if node is nodes[-1] else f"t{number}"
        if node.operation == "argument":
            name = node.name
        elif node.value is not None:
            yield helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(node.value)))
        else:
            *before, last = _operators(node)
            sources = [names[id(operand)] for operand in node.operands]
            for place, operator in enumerate((*before, last)):
                target = name if place == len(before) else f"{name}_{place}"
                if node.function and operator in {"Add", "Sub"}:
                    yield helper.make_node("Constant", [], [f"{target}_one"], value=one)
                    sources.append(f"{target}_one")
                yield helper.make_node(operator, sources, [target])
                sources = [target]
        names[id(node)] = name
    if nodes[-1].operation == "argument":
        yield helper.make_node("Identity", [nodes[-1].name], ["y"])


def _operators(node: Expression) -> tuple[str, ...]:
    name = node.function.name if node.function else node.operation
    operators = FUNCTIONS.get(name) if node.function else (OPERATORS.get(name, ""),)
    if not operators or not operators[0] or any(operand.dtype.kind == "u" for operand in node.operands):
        raise DefinitionError(f"ONNX has no operator for {name}; state as_function, the function for ONNX Runtime")
    return operators
