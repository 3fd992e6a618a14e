"""Definitions as C: one statement for each operation, without branches; CUDA C++ has the same statements.

A choice is made among bits, by a mask of all bits or none (elementary.h): of other choices compilers make branches.
The smaller or larger one of two numbers is written as a comparison, for which processors have an instruction; compilers
take it unless they know a number, so that a number of a definition is a variable there (see `limits`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from harness.operators.exact.expression import (
    BITWISE,
    BOOL,
    CODES,
    FLOAT32,
    INT16,
    INT32,
    INT64,
    LEAVES,
    UINT16,
    UINT32,
    UINT64,
    Expression,
    expanded,
    limit_of,
    node,
    ordered,
)
from harness.operators.exact.expression import literal as number_of
from harness.operators.exact.ranges import Interval, interval
from harness.operators.tensor import integer_limits
from harness.targets.generated import C_TYPES, integer_literal

TYPES = {**C_TYPES, "bool": "uint32_t"}
OPERATIONS: Mapping[str, str] = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}",
    "less": "0u - (uint32_t)({0} < {1})", "less_equal": "0u - (uint32_t)({0} <= {1})",
    "greater": "0u - (uint32_t)({0} > {1})", "greater_equal": "0u - (uint32_t)({0} >= {1})",
    "equal": "0u - (uint32_t)({0} == {1})",
    "between": "0u - (uint32_t)(bits_of_float({0}) - {1} < {2})",
    "less_of_magnitude": "mask_of_highest(bits_of_float({0}) - bits_of_float({1}))",
    "limit_less": "({0} < {1}) ? {2} : {3}", "limit_greater": "({0} > {1}) ? {2} : {3}",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}",
    "shift_left": "{0} << {1}", "shift_right": "{0} >> {1}",
    "negate": "float_of_bits(bits_of_float({0}) ^ 0x80000000u)",
    "absolute": "float_of_bits(bits_of_float({0}) & 0x7fffffffu)",
    "square_root": "sqrtf({0})", "floor": "floorf({0})", "ceiling": "ceilf({0})", "truncate": "truncf({0})",
    "round_half_even": "rintf({0})",
    "integer": "(int32_t){0}", "number": "(float){0}", "fused": "fused({0}, {1}, {2})",
    "convert": "({type}){0}",
    "code": "({type})round_saturated({0}, {least}, {most}, {1})",
    "bits": "bits_of_float({0})", "from_bits": "float_of_bits({0})",
}  # fmt: skip
"""The statement of each operation, and of those of `_lowered`; a bool is a mask of all bits or none."""


def literal(value: np.generic) -> str:
    """Return a number with its bits."""
    if value.dtype == FLOAT32:
        if not np.isfinite(float(value)):
            return f"float_of_bits({int(np.asarray(value).view(np.uint32)):#x}u)"
        mantissa, _, exponent = float(value).hex().partition("p")
        return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}f"
    if value.dtype == UINT64 and int(value) < 1 << 32:  # an int would be shifted as an int
        return f"(uint64_t){int(value)}u"
    if value.dtype not in {BOOL, UINT32}:
        return integer_literal(int(value))
    return f"{0xFFFFFFFF * int(value) if value.dtype == BOOL else int(value):#x}u"


def limits(root: Expression) -> dict[str, str]:
    """Return names of variables for the numbers of which a definition takes the smaller or larger one, by literal.

    Zero points are among them: the limits of a code depend on them.
    """
    taken = [x for place in ordered(_lowered(root)) if place.operation.startswith(("limit", "code"))
             for x in place.operands]  # fmt: skip
    numbers = dict.fromkeys(literal(x.value) for x in taken if x.value is not None and x.dtype in {FLOAT32, INT32})
    return {number: f"limit_{place}" for place, number in enumerate(numbers)}


def kind_of(number: str) -> str:
    """Return the C type of a limit."""
    return "int32_t" if number.lstrip("-").isdigit() else "float"


def statements(
    root: Expression,
    arguments: Mapping[str, str],
    variables: Mapping[str, str] = MappingProxyType({}),
    operations: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[str], str]:
    """Return the statements that compute a value, and the name of the result.

    `arguments` are C expressions by name, of loads too, and `variables` the names of those that have the values of
    `limits`.  Those of `operations` have other texts than here.
    """
    names: dict[int, str] = {}
    lines: list[str] = []
    numbers = itertools.count()
    nodes = ordered(_lowered(root))
    for place in nodes:
        operands = [names[id(operand)] for operand in place.operands]
        if place.operation in LEAVES:
            names[id(place)] = arguments[place.name]
            continue
        if place.value is not None:
            names[id(place)] = literal(place.value)
            continue
        if place.operation.startswith(("limit", "code")):
            operands = [variables.get(text, text) for text in operands]
        name = f"{place.name or 'v'}_{next(numbers)}"
        lines.append(f"const {TYPES[place.dtype.name]} {name} = {_operation(place, operands, operations)};")
        names[id(place)] = name
    return lines, names[id(nodes[-1])]


def _operation(place: Expression, operands: list[str], others: Mapping[str, str]) -> str:
    if place.operation == "code":
        least, most = integer_limits(place.dtype)
        text = {**OPERATIONS, **others}["code"]
        return text.format(*operands, type=TYPES[place.dtype.name], least=least, most=most)
    kind = TYPES[place.dtype.name]
    if place.operation in {"bits", "from_bits"} and FLOAT32 not in {place.dtype, place.operands[0].dtype}:
        return operands[0]
    if place.operation != "select":
        text = {**OPERATIONS, **others}[place.operation].format(*operands, type=kind)
        is_promoted = place.operation in BITWISE and place.dtype in {*CODES, INT16, UINT16}
        return f"({kind})({text})" if is_promoted else text
    mask, one, other = operands
    if place.dtype == FLOAT32:
        return f"chosen({mask}, {one}, {other})"
    if place.dtype in {INT64, UINT64}:
        mask, one, other = f"(0u - (uint64_t)({mask} & 1u))", f"(uint64_t){one}", f"(uint64_t){other}"
    chosen = f"({one} & {mask}) | ({other} & ~{mask})"
    return chosen if place.dtype in {BOOL, INT32, UINT32} else f"({kind})({chosen})"


@functools.lru_cache(maxsize=64)
def _lowered(root: Expression) -> Expression:
    """Return the graph without calls, and with operations for what C has a shorter text of than that of its parts."""
    replaced: dict[int, Expression] = {}
    nodes = ordered(expanded(root))
    for place in nodes:
        operands = [replaced[id(operand)] for operand in place.operands]
        if is_limit(place) and place.dtype == FLOAT32 and (value := _unlimited(place)) is not None:
            replaced[id(place)] = replaced[id(value)]
            continue
        if is_limit(place):
            compared = [replaced[id(operand)] for operand in place.operands[0].operands]
            copy = node(f"limit_{place.operands[0].operation}", [*compared, *operands[1:]], place.dtype)
        elif place.dtype == BOOL and operands and operands[0].dtype == FLOAT32:
            copy = _comparison(place, operands)
        else:
            copy = replace(place, operands=tuple(operands)) if operands else place
        replaced[id(place)] = replace(copy, name=place.name)
    return replaced[id(nodes[-1])]


def is_limit(place: Expression) -> bool:
    """Return whether a node is the smaller or larger one of two float32 or codes."""
    return place.dtype in (FLOAT32, *CODES) and bool(limit_of(place))


def _unlimited(place: Expression) -> Expression | None:
    """Return the value that is limited if no value of any arguments is beyond the limit, and if a NaN stays."""
    choices = place.operands[1:]
    places = [number for number, choice in enumerate(choices) if choice.value is None]
    if len(places) != 1 or place.dtype != FLOAT32:
        return None
    value, number = choices[places[0]], choices[1 - places[0]].value
    every = Interval.between(*(np.full(1, end, np.float32) for end in (-np.inf, np.inf)))
    bounds = interval(value, {x.name: every for x in ordered(value) if x.operation in LEAVES})
    is_kept = bounds.low[0] > number if limit_of(place) == "larger" else bounds.high[0] < number
    return value if is_kept and places == [1] else None  # the second choice is that of NaN


def _comparison(place: Expression, operands: list[Expression]) -> Expression:
    """Return a comparison, of bits where these compare as integers: integer operations need no flags of floats."""
    [x, number], operation = place.operands, place.operation
    value = math.nan if number.value is None else float(number.value)
    if operation == "less" and x.operation == "absolute" and 0 < value < math.inf:
        return node("less_of_magnitude", operands, BOOL)
    sign = {"less": -1.0, "greater": 1.0}.get(operation, math.nan)
    if not value * sign >= 0:
        return replace(place, operands=tuple(operands))
    end, infinity = (int(np.float32(math.copysign(limit, sign)).view(np.uint32)) for limit in (value, math.inf))
    return node("between", [operands[0], number_of(end + 1, UINT32), number_of(infinity - end, UINT32)], BOOL)


def loaded(text: str, dtype: np.dtype[Any]) -> str:
    """Return what statements read for an element of an array."""
    return f"(0u - (uint32_t){text})" if dtype == BOOL else text


def stored(text: str, dtype: np.dtype[Any]) -> str:
    """Return the element of an array for a result of statements."""
    return f"(uint8_t)({text} & 1u)" if dtype == BOOL else text


def assigned(root: Expression, target: str, arguments: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """Return the statements that assign a value; see `statements`."""
    lines, result = statements(root, arguments, variables)
    if lines and (head := f"const {TYPES[root.dtype.name]} {result} = ") and lines[-1].startswith(head):
        return [*lines[:-1], f"{target} = {lines[-1].removeprefix(head)}"]
    return [*lines, f"{target} = {result};"]


def limit(root: Expression, arguments: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """Return the C expression of the smaller or larger one of two numbers; see `statements`."""
    [line] = assigned(root, "", arguments, variables)
    return line.removeprefix(" = ").removesuffix(";")


def function(
    name: str,
    root: Expression,
    parameters: Mapping[str, np.dtype[Any]],
    arguments: Mapping[str, str] | None = None,
) -> str:
    """Return the C function of a definition; its parameters are names with types, and `limits`.

    `arguments` are the names of the parameters by those of the arguments and loads, by default the same.
    """
    variables = limits(root)
    values = {name: loaded(name, dtype) for name, dtype in parameters.items()}
    lines, result = statements(root, values if arguments is None else arguments, variables)
    kinds = {name: C_TYPES[dtype.name] for name, dtype in parameters.items()}
    kinds |= {variable: kind_of(number) for number, variable in variables.items()}
    head = ", ".join(f"{kind} {parameter}" for parameter, kind in kinds.items())
    body = "\n".join(f"    {line}" for line in [*lines, f"return {stored(result, root.dtype)};"])
    return f"static inline {C_TYPES[root.dtype.name]} {name}({head or 'void'})\n{{\n{body}\n}}"
