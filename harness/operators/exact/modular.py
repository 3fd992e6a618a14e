"""Arithmetic of all integers by operations on uint32 and uint64, which emitters have: in C no result is undefined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness.operators.exact.expression import (
    ARITHMETIC,
    FLOAT32,
    INTEGERS,
    UINT32,
    UINT64,
    Expression,
    converted,
    equal,
    node,
    ordered,
    select,
)


def modular(root: Expression) -> Expression:
    """Return the graph with arithmetic of integers by operations on uint32 and uint64 alone, which emitters have."""
    replaced: dict[int, Expression] = {}
    for place in ordered(root):
        operands = tuple(replaced[id(operand)] for operand in place.operands)
        copy = replace(place, operands=operands) if operands else place
        if place.operation in ARITHMETIC and place.dtype in INTEGERS:
            result = _quotient(*operands) if place.operation == "divide" else _modulo(place.operation, *operands)
            copy = replace(result, name=place.name)
        replaced[id(place)] = copy
    return replaced[id(root)]


def unsigned(x: Expression) -> Expression:
    """Return an integer as uint32, of 64 bits as uint64, modulo 2^n."""
    return converted(x, wide(x.dtype))


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of sums of values of a type: float32 itself, of integers uint32 or uint64."""
    if dtype == FLOAT32:
        return dtype
    return UINT64 if dtype.itemsize == UINT64.itemsize else UINT32


def _modulo(operation: str, a: Expression, b: Expression) -> Expression:
    x = unsigned(a)
    return converted(node(operation, [x, unsigned(b)], x.dtype), a.dtype)


def _quotient(a: Expression, b: Expression) -> Expression:
    """Return the quotient toward zero by that of the magnitudes, which has no overflow; 0 for a divisor 0."""
    if a.dtype.kind == "u":
        return converted(_whole_quotient(unsigned(a), unsigned(b)), a.dtype)
    x, y = (select(value < 0, 0 - unsigned(value), unsigned(value)) for value in (a, b))
    magnitude = _whole_quotient(x, y)
    return converted(select((a ^ b) < 0, 0 - magnitude, magnitude), a.dtype)


def _whole_quotient(x: Expression, y: Expression) -> Expression:
    """Return the quotient of uint32 or uint64; 0 for a divisor 0, of which no processor divides."""
    is_zero = equal(y, 0)
    return select(is_zero, 0, node("divide", [x, select(is_zero, 1, y)], x.dtype))
