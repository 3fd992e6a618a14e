"""Scalar expressions of the exact language: a typed graph in which each node is one IEEE 754 or integer operation.

A definition is a Python function of expressions.  Its arguments are `argument` nodes; what it returns is the graph.
There is no implicit conversion: a literal of Python takes the type of the other operand, and everything else of two
types is an error that names the line of the definition.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from harness.operators.tensor import SHORT

if TYPE_CHECKING:
    from harness.operators.exact.stages import Load

FLOAT32, BOOL, INT8, UINT8, INT16, UINT16 = map(np.dtype, ("float32", "bool", "int8", "uint8", "int16", "uint16"))
INT32, UINT32, INT64, UINT64 = map(np.dtype, ("int32", "uint32", "int64", "uint64"))
FLOAT16, FLOAT64 = map(np.dtype, ("float16", "float64"))
BITS = {FLOAT32: UINT32, FLOAT16: UINT16, FLOAT64: UINT64, **{kind: np.dtype(f"u{kind.itemsize}") for kind in SHORT}}
"""The types of the bits of floats and of small integers; but for float32 these are all that a definition takes."""
CODES = (INT8, UINT8)
"""The types of codes, which are compared, selected and converted."""
INTEGERS = (*CODES, INT16, UINT16, INT32, UINT32, INT64, UINT64)
ARITHMETIC = ("add", "subtract", "multiply", "divide")
"""Operations of two float32 numbers, rounded half to even, or of integers modulo 2^n; see `divide` of integers.

Emitters have those of float32, uint32 and uint64, and of int32 numbers whose results are int32; see modular.py."""
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal")
"""Operations of two float32 numbers (false if one is NaN, -0 equals 0) or integers; they give a bool."""
BITWISE = ("and", "or", "xor", "shift_left", "shift_right")
"""Operations of two integers; `and`, `or` and `xor` of two bools, too.  A shift is of uint32 or uint64."""
SHIFTED = (UINT32, UINT64)
ROUNDINGS = ("floor", "ceiling", "truncate", "round_half_even")
"""Operations of a float32 that give an integer as float32; a negative number that becomes 0 gives -0."""
UNARY = ("negate", "absolute", "square_root", *ROUNDINGS)
"""Operations of a float32; `negate` and `absolute` change the sign bit alone, also of NaN."""


LEAVES = ("argument", "load")
"""Operations without operands whose values are given by name."""
OTHERS = 4.0
"""The units in the last place within which functions of other libraries are: more than ONNX Runtime's were measured."""


class DefinitionError(TypeError):
    """A definition that breaks a rule of the language."""


@dataclass(frozen=True, eq=False)
class Function:
    """A named function of one float32, which a definition calls; its own definition is `root`, of `argument`.

    `real` is the real function that it approximates, float64 to float64, and `ulp` the largest distance from it in
    units in the last place of the result.  It rises, or `falls`, but for that distance; without an exception, -0 below
    0, if it `is_monotone`; it may rise and fall if it `is_wave`.  No result is outside of `limits`.  Functions of other
    libraries are within `others` of the real one, and a `difference` that small results need not have.
    """

    name: str
    argument: Expression
    root: Expression
    real: Callable[[Any], Any]
    ulp: float
    falls: bool = False
    is_monotone: bool = False
    limits: tuple[float, float] = (-np.inf, np.inf)
    others: float = OTHERS
    difference: float = 0.0
    is_wave: bool = False

    def __call__(self, x: Expression) -> Expression:
        """Return the value of the function."""
        return node("call", [x], FLOAT32, function=self)


@dataclass(frozen=True, eq=False)
class Expression:
    """An operation and its operands, an `argument` with a name, a `literal` with a value, or a `load` (stages.py)."""

    operation: str
    operands: tuple[Expression, ...]
    dtype: np.dtype[Any]
    value: np.generic | None = None
    name: str = ""
    function: Function | None = None
    load: Load | None = None

    def __add__(self, other: Operand) -> Expression:
        return _arithmetic("add", self, other)

    def __radd__(self, other: Operand) -> Expression:
        return _arithmetic("add", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return _arithmetic("subtract", self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return _arithmetic("subtract", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return _arithmetic("multiply", self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return _arithmetic("multiply", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return _arithmetic("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return _arithmetic("divide", other, self)

    def __neg__(self) -> Expression:
        return literal(0, self.dtype) - self if self.dtype in INTEGERS else unary("negate", self)

    def __abs__(self) -> Expression:
        if self.dtype.kind == "u":
            return self
        return select(self < 0, -self, self) if self.dtype in INTEGERS else unary("absolute", self)

    def __lt__(self, other: Operand) -> Expression:
        return _comparison("less", self, other)

    def __le__(self, other: Operand) -> Expression:
        return _comparison("less_equal", self, other)

    def __gt__(self, other: Operand) -> Expression:
        return _comparison("greater", self, other)

    def __ge__(self, other: Operand) -> Expression:
        return _comparison("greater_equal", self, other)

    def __and__(self, other: Operand) -> Expression:
        return _bitwise("and", self, other)

    def __or__(self, other: Operand) -> Expression:
        return _bitwise("or", self, other)

    def __xor__(self, other: Operand) -> Expression:
        return _bitwise("xor", self, other)

    def __lshift__(self, other: Operand) -> Expression:
        return _bitwise("shift_left", self, other)

    def __rshift__(self, other: Operand) -> Expression:
        return _bitwise("shift_right", self, other)

    def __bool__(self) -> bool:
        raise _error("a decision of Python about a value", "select(condition, a, b)")


Operand: TypeAlias = "Expression | float | int | np.generic"


def argument(name: str, dtype: np.dtype[Any] = FLOAT32) -> Expression:
    """Return an argument of a definition."""
    return Expression("argument", (), dtype, name=name)


def literal(value: float | np.generic, dtype: np.dtype[Any] = FLOAT32) -> Expression:
    """Return a number; it must be one of the type, but that a decimal fraction is rounded to float32."""
    with np.errstate(over="ignore"):
        number = dtype.type(value)
    is_too_large = dtype.kind == "f" and np.isinf(number) and not np.isinf(value)
    if is_too_large or (dtype.kind != "f" and int(number) != value):
        raise _error(f"{value} as {dtype}", "a number of this type")
    return Expression("literal", (), dtype, value=number)


def required_float(value: object, operator: str) -> Expression:
    """Return the result of a definition; raise DefinitionError if it is no float32."""
    if not isinstance(value, Expression) or value.dtype != FLOAT32:
        kind = value.dtype if isinstance(value, Expression) else type(value).__name__
        raise DefinitionError(f"the definition of {operator} returns {kind}, not an expression of float32")
    return value


def named(name: str, value: Expression) -> Expression:
    """Return the value with a name, under which texts show it."""
    return replace(value, name=name)


def select(condition: Expression, one: Operand, other: Operand) -> Expression:
    """Return one value where the condition is true, else the other: bits are kept; numbers of Python are float32."""
    _require(condition, BOOL)
    are_numbers = not isinstance(one, Expression) and not isinstance(other, Expression)
    a, b = _pair(literal(one) if are_numbers else one, other)  # type: ignore[arg-type]
    return node("select", [condition, a, b], a.dtype)


def equal(one: Expression, other: Operand) -> Expression:
    """Return whether two numbers are equal; -0 equals 0, and no NaN equals anything."""
    return _comparison("equal", one, other)


def is_nan(x: Expression) -> Expression:
    """Return whether a float32 is NaN."""
    return (bits(x) & 0x7FFFFFFF) > 0x7F800000


def bits(x: Expression) -> Expression:
    """Return the bits of a float or of a small integer as an unsigned integer."""
    if x.dtype not in BITS:
        _require(x, FLOAT32)
    return node("bits", [x], BITS[x.dtype])


def from_bits(x: Expression, dtype: np.dtype[Any] = FLOAT32) -> Expression:
    """Return the float, or the small integer, with these bits."""
    _require(x, BITS[dtype])
    return node("from_bits", [x], dtype)


def smaller(one: Operand, other: Operand) -> Expression:
    """Return `one` if it is less than `other`, else `other`: a NaN in `one` gives `other`."""
    a, b = _pair(one, other)
    return select(a < b, a, b)


def larger(one: Operand, other: Operand) -> Expression:
    """Return `one` if it is greater than `other`, else `other`: a NaN in `one` gives `other`."""
    a, b = _pair(one, other)
    return select(a > b, a, b)


def limit_of(place: Expression) -> str:
    """Return the operation `smaller` or `larger` that a node is; the empty text of other nodes."""
    if place.operation != "select" or place.operands[0].operation not in {"less", "greater"}:
        return ""
    condition, *choices = place.operands
    compared, chosen = ([_key(x) for x in operands] for operands in (condition.operands, choices))
    if chosen not in (compared, compared[::-1]):
        return ""
    return "larger" if (condition.operation == "greater") == (chosen == compared) else "smaller"


def _key(x: Expression) -> int | bytes:
    """Return what two literals of the same bits have in common, and other nodes with themselves."""
    return id(x) if x.value is None else x.value.tobytes()


def unary(operation: str, x: Expression) -> Expression:
    """Return an operation of UNARY."""
    _require(x, FLOAT32)
    return node(operation, [x], FLOAT32)


def square_root(x: Expression) -> Expression:
    """Return the square root, rounded half to even; NaN for a number below 0, -0 for -0."""
    return unary("square_root", x)


def floor(x: Expression) -> Expression:
    """Return the greatest integer that is not above x."""
    return unary("floor", x)


def ceiling(x: Expression) -> Expression:
    """Return the least integer that is not below x."""
    return unary("ceiling", x)


def round_half_even(x: Expression) -> Expression:
    """Return the nearest integer, the even one of two."""
    return unary("round_half_even", x)


def integer(x: Expression) -> Expression:
    """Return a code as int32."""
    if x.dtype not in CODES:
        raise _error(f"the integer of {x.dtype}", "a code")
    return node("integer", [x], INT32)


def number(x: Expression) -> Expression:
    """Return the float32 nearest to an int32, the even one of two."""
    _require(x, INT32)
    return node("number", [x], FLOAT32)


def converted(x: Expression, dtype: np.dtype[Any]) -> Expression:
    """Return a number in another type: an integer modulo 2^n, or as the nearest float32; the integer part of a float32.

    This part must be an integer of the type.
    """
    if BOOL in {x.dtype, dtype}:
        raise _error(f"the conversion of {x.dtype} to {dtype}", "select or equal")
    return x if x.dtype == dtype else node("convert", [x], dtype)


def shifted(operation: str, x: Expression, count: Expression) -> Expression:
    """Return the result of shift_left or shift_right by a computed number, which is less than the bits of the type."""
    a, b = _pair(x, count)
    if a.dtype not in SHIFTED:
        raise _error(f"{operation} of {a.dtype}", "uint32 or uint64")
    return node(operation, [a, b], a.dtype)


def code(v: Expression, zero_point: Operand, dtype: np.dtype[Any]) -> Expression:
    """Return v, rounded half to even, plus an int32, limited to a type of codes; NaN gives its least code."""
    _require(v, FLOAT32)
    zero = zero_point if isinstance(zero_point, Expression) else literal(zero_point, INT32)
    _require(zero, INT32)
    return node("code", [v, zero], dtype)


def fused(one: Operand, other: Operand, addend: Operand) -> Expression:
    """Return one * other + addend of finite float32 numbers, rounded once."""
    a, b = _pair(one, other)
    b, c = _pair(b, addend)
    _require(c, FLOAT32)
    return node("fused", [a, b, c], FLOAT32)


def nearest(real: Callable[[Any], Any], x: Expression) -> Expression:
    """Return the float32 nearest to a real function, float64 to float64: for faults, as no code has it."""
    return node("nearest", [x], FLOAT32, Function("nearest", x, x, real, 0.5))


def function(real: Callable[[Any], Any], ulp: float, **facts: Any) -> Callable[[Definition], Function]:
    """Return the decorator of a definition of one float32 that others call; see `Function` for the facts."""

    def decorated(definition: Definition) -> Function:
        x = argument("x")
        return Function(definition.__name__, x, definition(x), real, ulp, **facts)

    return decorated


Definition: TypeAlias = Callable[..., Expression]


def node(
    operation: str, operands: Sequence[Expression], dtype: np.dtype[Any], function: Function | None = None
) -> Expression:
    """Return an operation whose operands have been checked."""
    return Expression(operation, tuple(operands), dtype, function=function)


def ordered(root: Expression) -> list[Expression]:
    """Return all nodes of a graph, each once and behind its operands."""
    nodes: dict[int, Expression] = {}
    todo: list[tuple[Expression, bool]] = [(root, False)]
    while todo:
        expression, are_operands_done = todo.pop()
        if id(expression) in nodes:
            continue
        if are_operands_done:
            nodes[id(expression)] = expression
            continue
        todo.append((expression, True))
        todo += [(operand, False) for operand in reversed(expression.operands)]
    return list(nodes.values())


def substituted(root: Expression, values: Mapping[int, Expression]) -> Expression:
    """Return the graph with other nodes in the place of those with these identities; shared nodes stay shared."""
    replaced: dict[int, Expression] = {}
    for expression in ordered(root):
        operands = tuple(replaced[id(operand)] for operand in expression.operands)
        is_same = all(a is b for a, b in zip(operands, expression.operands, strict=True))
        copy = expression if is_same else replace(expression, operands=operands)
        replaced[id(expression)] = values.get(id(expression), copy)
    return replaced[id(root)]


def expanded(root: Expression) -> Expression:
    """Return the graph with the definitions of the functions in the place of their calls."""
    replaced: dict[int, Expression] = {}
    for expression in ordered(root):
        operands = tuple(replaced[id(operand)] for operand in expression.operands)
        if expression.operation == "call" and expression.function is not None:
            body = expanded(expression.function.root)
            replaced[id(expression)] = substituted(body, {id(expression.function.argument): operands[0]})
        else:
            replaced[id(expression)] = replace(expression, operands=operands) if operands else expression
    return replaced[id(root)]


def calls(root: Expression) -> Iterator[Function]:
    """Yield the functions that a graph calls, each behind those that it calls itself."""
    known: set[int] = set()
    for expression in ordered(root):
        if expression.function is not None and id(expression.function) not in known:
            for other in calls(expression.function.root):
                if id(other) not in known:
                    known.add(id(other))
                    yield other
            known.add(id(expression.function))
            yield expression.function


def _arithmetic(operation: str, one: Operand, other: Operand) -> Expression:
    a, b = _pair(one, other)
    if a.dtype not in {FLOAT32, *INTEGERS}:
        raise _error(f"{operation} of {a.dtype}", "numbers")
    return node(operation, [a, b], a.dtype)


def _comparison(operation: str, one: Operand, other: Operand) -> Expression:
    a, b = _pair(one, other)
    if a.dtype == BOOL and operation != "equal":
        raise _error(f"{operation} of bool", "equal, or operations on bits")
    return node(operation, [a, b], BOOL)


def _bitwise(operation: str, one: Operand, other: Operand) -> Expression:
    a, b = _pair(one, other)
    is_shift = operation.startswith("shift")
    if a.dtype not in (SHIFTED if is_shift else {BOOL, *INTEGERS}):
        raise _error(f"{operation} of {a.dtype}", "bits(x) of a float32")
    if is_shift and not (b.value is not None and 0 <= int(b.value) < 8 * a.dtype.itemsize):
        raise _error(f"{operation} by a computed number", "a literal below the bits of the type, or shifted")
    return node(operation, [a, b], a.dtype)


def _pair(one: Operand, other: Operand) -> tuple[Expression, Expression]:
    """Return two operands of one type; a number of Python takes the type of the other one."""
    if isinstance(one, Expression):
        a, b = one, other if isinstance(other, Expression) else literal(other, one.dtype)
    elif isinstance(other, Expression):
        a, b = literal(one, other.dtype), other
    else:
        raise _error("an operation of two numbers of Python", "literal(number) for one of them")
    if a.dtype != b.dtype:
        raise _error(f"an operation of {a.dtype} and {b.dtype}", "bits, from_bits or select, which name a conversion")
    return a, b


def _require(x: Expression, dtype: np.dtype[Any]) -> None:
    if x.dtype != dtype:
        raise _error(f"{x.dtype} in the place of {dtype}", "bits, from_bits or select, which name a conversion")


def _error(what: str, instead: str) -> DefinitionError:
    """Return the error with the place in the definition: the first frame outside of this module."""
    frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to the caller
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"
    return DefinitionError(f"{place}: {what} is not in the language; use {instead}")
