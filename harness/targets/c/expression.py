"""Definitions as C: one statement for each operation, without branches; CUDA C++ has the same statements.

A choice is made among bits, by a mask of all bits or none (elementary.h): of other choices compilers make branches.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from harness.operators.exact.expression import BOOL, FLOAT32, Expression, expanded, ordered

TYPES = {"float32": "float", "uint32": "uint32_t", "bool": "uint32_t"}
OPERATIONS: Mapping[str, str] = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}",
    "less": "0u - (uint32_t)({0} < {1})", "less_equal": "0u - (uint32_t)({0} <= {1})",
    "greater": "0u - (uint32_t)({0} > {1})", "greater_equal": "0u - (uint32_t)({0} >= {1})",
    "equal": "0u - (uint32_t)({0} == {1})",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}",
    "shift_left": "{0} << {1}", "shift_right": "{0} >> {1}",
    "negate": "float_of_bits(bits_of_float({0}) ^ 0x80000000u)",
    "absolute": "float_of_bits(bits_of_float({0}) & 0x7fffffffu)",
    "square_root": "sqrtf({0})", "floor": "floorf({0})", "ceiling": "ceilf({0})", "truncate": "truncf({0})",
    "round_half_even": "rintf({0})",
    "bits": "bits_of_float({0})", "from_bits": "float_of_bits({0})",
}  # fmt: skip
"""The statement of each operation; a bool is a mask of all bits or none."""


def literal(value: np.generic) -> str:
    """Return a number with its bits."""
    if value.dtype == FLOAT32:
        if not np.isfinite(float(value)):
            return f"float_of_bits({int(np.asarray(value).view(np.uint32)):#x}u)"
        mantissa, _, exponent = float(value).hex().partition("p")
        return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}f"
    return f"{int(value):#x}u"


def statements(
    root: Expression, arguments: Mapping[str, str], accumulator: Expression | None = None
) -> tuple[list[str], str]:
    """Return the statements that compute a value, and the name of the result; `arguments` are C expressions by name.

    A load has its text as name (exact/stages.py).  A fold that keeps the larger or the smaller number has one
    instruction for it on most processors, which compilers find in a conditional expression, not in a mask.
    """
    names: dict[int, str] = {}
    lines: list[str] = []
    numbers = itertools.count()
    nodes = ordered(expanded(root))
    if accumulator is not None and _is_extremum(root, accumulator):
        condition, one, other = root.operands
        lines, taken = statements(one if other is accumulator else other, arguments)
        texts = {id(accumulator): arguments[accumulator.name], id(one if other is accumulator else other): taken}
        first, second = (texts[id(operand)] for operand in condition.operands)
        sign = "<" if condition.operation == "less" else ">"
        return lines, f"(({first} {sign} {second}) ? {texts[id(one)]} : {texts[id(other)]})"
    for node in nodes:
        operands = [names[id(operand)] for operand in node.operands]
        if node.operation in {"argument", "load"}:
            names[id(node)] = arguments[node.name]
            continue
        if node.value is not None:
            names[id(node)] = literal(node.value)
            continue
        name = f"{node.name or 'v'}_{next(numbers)}"
        lines.append(f"const {TYPES[node.dtype.name]} {name} = {_operation(node, operands)};")
        names[id(node)] = name
    return lines, names[id(nodes[-1])]


def _is_extremum(root: Expression, accumulator: Expression) -> bool:
    """Return whether an expression is the larger or the smaller one of the accumulator and another number."""
    if root.operation != "select" or root.operands[0].operation not in {"less", "greater"}:
        return False
    branches = set(map(id, root.operands[1:]))
    return id(accumulator) in branches and branches == set(map(id, root.operands[0].operands))


def _operation(node: Expression, operands: list[str]) -> str:
    if node.operation != "select":
        return OPERATIONS[node.operation].format(*operands)
    mask, one, other = operands
    if node.dtype == FLOAT32:
        return f"chosen({mask}, {one}, {other})"
    return f"({one} & {mask}) | ({other} & ~{mask})"


def function(name: str, root: Expression, arguments: Mapping[str, str], prefix: str = "static inline") -> str:
    """Return the C function of a definition; its parameters are `arguments`, by name, with their C types."""
    lines, result = statements(root, {argument: argument for argument in arguments})
    parameters = ", ".join(f"{kind} {argument}" for argument, kind in arguments.items())
    value = TYPES[root.dtype.name] if root.dtype != BOOL else "uint32_t"
    body = "\n".join(f"    {line}" for line in [*lines, f"return {result};"])
    return f"{prefix} {value} {name}({parameters})\n{{\n{body}\n}}"
