"""Fault models of a definition: graphs in which one operation is wrong, each with the fault in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.operators.exact.expression import (
    ARITHMETIC,
    BOOL,
    COMPARISONS,
    FLOAT32,
    ROUNDINGS,
    UINT32,
    Expression,
    bits,
    from_bits,
    literal,
    node,
    ordered,
    substituted,
    unary,
)
from harness.operators.exact.printing import INFIX, inline

ROUNDING_NAMES = {
    "floor": "down",
    "ceiling": "up",
    "truncate": "toward zero",
    "round_half_even": "half to even",
}


def mutants(root: Expression) -> Iterator[tuple[str, Expression]]:
    """Yield a fault in words and the graph that has it, for each operation and each fault of its kind."""
    if root.dtype == BOOL:
        yield "the result is negated", root ^ True
    counts: dict[str, int] = {}
    places = ordered(root)
    names = {id(place): place.name for place in places if place.name}
    of_bits = any(place.dtype == FLOAT32 for place in places)
    for place in places:
        if of_bits and place.dtype == UINT32:
            continue
        for cause, wrong in _wrong(place, names):
            counts[cause] = counts.get(cause, 0) + 1
            number = f", place {counts[cause]}" if counts[cause] > 1 else ""
            yield f"{cause}{number}", substituted(root, {id(place): wrong})


def _wrong(place: Expression, names: Mapping[int, str]) -> Iterator[tuple[str, Expression]]:
    operation = place.operation
    operands = [inline(operand, names) for operand in place.operands]
    text = inline(place, {identity: name for identity, name in names.items() if identity != id(place)})
    if operation == "argument" and place.dtype == np.float32:
        yield f"the sign of {place.name} is changed", -place
    elif operation in ARITHMETIC:
        yield from _wrong_arithmetic(place, text, *operands)
    elif operation == "fused":
        a, b, c = place.operands
        yield f"{text} is rounded twice", a * b + c
        yield f"{operands[2]} is left out of {text}", a * b
        yield f"the product is left out of {text}", c
    elif operation in COMPARISONS and operation != "equal":
        strict = operation.removesuffix("_equal")
        inclusive = f"{strict}_equal"
        words, wrong = ("includes", inclusive) if operation == strict else ("leaves out", strict)
        yield f"the condition {text} {words} equality", node(wrong, place.operands, place.dtype)
    elif operation == "select":
        condition, if_true, if_false = place.operands
        yield f"the condition {operands[0]} is taken as true", if_true
        yield f"the condition {operands[0]} is taken as false", if_false
        exchanged = node("select", [condition, if_false, if_true], place.dtype)
        yield f"the choices by {operands[0]} are exchanged", exchanged
    elif operation in {"and", "or", "xor"}:
        yield f"{operands[1]} is left out of {text}", place.operands[0]
        yield f"{operands[0]} is left out of {text}", place.operands[1]
    elif operation in ROUNDINGS:
        yield from _wrong_roundings(place, operands[0])
    elif operation in {"negate", "absolute"}:
        yield f"{text} is {operands[0]}", place.operands[0]
    elif place.function is not None:
        yield f"{text} is the float32 nearest to it", node("nearest", place.operands, place.dtype, place.function)


def _wrong_arithmetic(place: Expression, text: str, one: str, other: str) -> Iterator[tuple[str, Expression]]:
    a, b = place.operands
    written = b.operands[0] if b.operation == "number" else b  # a conversion has no text
    reciprocal = f"1 / ({other})" if written.operation in INFIX and " " in other else f"1 / {other}"
    yield f"{other} is left out of {text}", a
    if place.operation in {"add", "multiply"}:
        yield f"{one} is left out of {text}", b
    if place.operation == "add":
        yield f"{other} is subtracted in {text}", a - b
    if place.operation == "subtract":
        if a.value is None or a.value != 0:
            yield f"{one} is left out of {text}", -b
        yield f"{other} is added in {text}", a + b
        yield f"the terms of {text} are exchanged", b - a
    if place.operation == "multiply" and place.dtype == FLOAT32:
        yield f"{one} is divided by {reciprocal} in {text}", a / (literal(1) / b)
    if place.operation == "divide":
        if place.dtype == FLOAT32:
            yield f"{one} is multiplied by {reciprocal} in {text}", a * (literal(1) / b)
        yield f"the terms of {text} are exchanged", b / a


def _wrong_roundings(place: Expression, operand: str) -> Iterator[tuple[str, Expression]]:
    [x] = place.operands
    right = f"the rounding of {operand} is"
    for operation, words in ROUNDING_NAMES.items():
        if operation != place.operation:
            yield f"{right} {words}", unary(operation, x)
    half = from_bits((bits(x) & 0x80000000) | bits(literal(0.5)))
    yield f"{right} half away from zero", unary("truncate", x + half)
    yield f"{right} half up by floor(x + 0.5)", unary("floor", x + 0.5)
    yield f"{operand} is not rounded", x
