"""Intervals of expressions: bounds of the value for arguments between bounds, over arrays.

A rounded operation rises or falls with each operand as the exact one does, so its results at the ends of the operands
are bounds of all its results (Moore, Interval Analysis).  Bits have no bounds here; functions have those of their ends,
widened by their largest error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.operators.exact.evaluation import NUMPY, numpy_function
from harness.operators.exact.expression import COMPARISONS, FLOAT32, LEAVES, UNARY, Expression, Function, ordered

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
INFINITY, LEAST = np.float32(np.inf), np.float32(2.0**-149)


@dataclass(frozen=True, eq=False)
class Interval:
    """Bounds of float32 values that are no NaN; `nan` is true where a value can be NaN, `minus_zero` where -0.

    Where every value is NaN, `low` is above `high`.
    """

    low: Floats
    high: Floats
    nan: Bools
    minus_zero: Bools

    @classmethod
    def between(cls, low: Floats, high: Floats, *, minus_zero: Bools | bool = True) -> Interval:
        """Return the interval of numbers without NaN."""
        none = np.zeros(np.shape(low), np.bool_)
        return cls(low, high, none, none | minus_zero)


@dataclass(frozen=True, eq=False)
class _Truth:
    """Possible results of a condition: whether it can be true, and whether it can be false."""

    true: Bools
    false: Bools


def interval(
    root: Expression, arguments: Mapping[str, Interval], known: Mapping[int, Interval] | None = None
) -> Interval:
    """Return the bounds of a float32 for those of its arguments, which have arrays of one shape.

    `known` are bounds of nodes within, by identity.
    """
    if known and id(root) in known:  # as in a chain of limits, which would be followed twice for each
        return known[id(root)]
    values: dict[int, Any] = dict(known or {})
    shape = next(iter(arguments.values())).low.shape
    with np.errstate(all="ignore"):
        for node in ordered(root):
            if id(node) in values:
                continue
            operands = [values[id(operand)] for operand in node.operands]
            if node.operation in LEAVES:
                values[id(node)] = arguments[node.name]
            elif node.value is not None and node.dtype == FLOAT32:
                values[id(node)] = _literal(node.value, shape)
            elif node.dtype != FLOAT32 and node.operation not in COMPARISONS:
                values[id(node)] = _Truth(np.ones(shape, np.bool_), np.ones(shape, np.bool_))
            elif node.operation == "select":
                values[id(node)] = _selection(node, values, arguments)
            else:
                values[id(node)] = _value(node, operands, shape)
    bounds: Interval = values[id(root)]
    return bounds


def _literal(value: np.generic, shape: tuple[int, ...]) -> Interval:
    number = np.full(shape, value, np.float32)
    is_nan = np.isnan(number)
    return Interval(np.where(is_nan, INFINITY, number), np.where(is_nan, -INFINITY, number), is_nan,
                    _is_minus_zero(number))  # fmt: skip


def _value(node: Expression, operands: list[Any], shape: tuple[int, ...]) -> Any:
    if node.operation in COMPARISONS:
        return _comparison(node, operands)
    if node.function is not None:
        return _call(node.function, operands[0])
    if node.operation in FLOATS:
        return FLOATS[node.operation](node.operation, *operands)
    every = np.ones(shape, np.bool_)  # the bits of a float32 can be any
    return Interval(np.full(shape, -INFINITY), np.full(shape, INFINITY), every, every)


def _comparison(node: Expression, operands: list[Any]) -> _Truth:
    a, b = operands
    if not isinstance(a, Interval):  # of bits
        return a  # type: ignore[no-any-return]
    nan = a.nan | b.nan
    if node.operation == "equal":
        apart = (a.high < b.low) | (b.high < a.low)
        same = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
        return _Truth(~apart, ~same | nan)
    if node.operation.startswith("greater"):
        a, b = b, a
    compare = np.less_equal if node.operation.endswith("_equal") else np.less
    return _Truth(compare(a.low, b.high), ~compare(a.high, b.low) | nan)


def _selection(node: Expression, values: Mapping[int, Any], arguments: Mapping[str, Interval]) -> Interval:
    truth = values[id(node.operands[0])]
    one = _branch(node, values, arguments, holds=True)
    other = _branch(node, values, arguments, holds=False)
    takes_one, takes_other = truth.true, truth.false
    return Interval(
        np.minimum(np.where(takes_one, one.low, INFINITY), np.where(takes_other, other.low, INFINITY)),
        np.maximum(np.where(takes_one, one.high, -INFINITY), np.where(takes_other, other.high, -INFINITY)),
        takes_one & one.nan | takes_other & other.nan,
        takes_one & one.minus_zero | takes_other & other.minus_zero,
    )


def _branch(node: Expression, values: Mapping[int, Any], arguments: Mapping[str, Interval], *, holds: bool) -> Interval:
    """Return a branch for what its condition says about the values that it compares."""
    condition, chosen = node.operands[0], node.operands[1 if holds else 2]
    bounds: Interval = values[id(chosen)]
    if condition.operation not in COMPARISONS or condition.operation == "equal":
        return bounds
    inner = {id(place) for place in ordered(chosen)}
    left, right = condition.operands
    known = {
        id(place): _narrowed(values[id(place)], values[id(other)], holds=holds, is_upper=is_upper == holds)
        for place, other, is_upper in (
            (left, right, condition.operation.startswith("less")),
            (right, left, condition.operation.startswith("greater")),
        )
        if id(place) in inner and place.value is None and place.dtype == FLOAT32
    }
    return interval(chosen, arguments, known) if known else bounds


def _narrowed(bounds: Interval, other: Interval, *, holds: bool, is_upper: bool) -> Interval:
    """Return the bounds of a value that another one limits; it may be empty where the condition cannot be so."""
    unordered = ~np.asarray(holds) & (bounds.nan | other.nan)  # a condition is false, too, where a number is NaN
    low, high = bounds.low, bounds.high
    if is_upper:
        high = np.where(unordered, high, np.minimum(high, other.high))
    else:
        low = np.where(unordered, low, np.maximum(low, other.low))
    return Interval(low, high, bounds.nan & ~np.asarray(holds), bounds.minus_zero)


def _call(function: Function, x: Interval) -> Interval:
    if function.is_wave:
        is_infinite = np.isinf(x.low) | np.isinf(x.high)
        low, high = (np.full_like(x.low, limit) for limit in function.limits)
        return Interval(low, high, x.nan | is_infinite, np.ones_like(x.nan))
    evaluate = numpy_function(function)
    ends = [evaluate(end) for end in (x.low, x.high)]
    low, high = reversed(ends) if function.falls else ends
    nan = x.nan | np.isnan(low) | np.isnan(high)
    least, most = (np.float32(limit) for limit in function.limits)
    if function.is_monotone:
        at_zero, below_zero = evaluate(np.array([-0.0, -LEAST], np.float32))
        minus = x.minus_zero & _is_minus_zero(at_zero) | _is_minus_zero(below_zero)
        return Interval(low, high, nan, minus & (low <= 0) & (high >= 0))
    low, high = np.maximum(_moved(low, -function.ulp), least), np.minimum(_moved(high, function.ulp), most)
    return Interval(low, high, nan, np.full_like(nan, least < 0))


def _is_minus_zero(value: Any) -> Any:
    return (value == 0) & np.signbit(value)


def _moved(value: Floats, ulp: float) -> Floats:
    """Return a bound moved by some units in the last place, twice the error of the function at that end."""
    for _ in range(int(np.ceil(2 * abs(ulp)))):
        value = np.nextafter(value, np.float32(np.copysign(INFINITY, ulp)))
    return value


def _sum(operation: str, a: Interval, b: Interval) -> Interval:
    low_of_b, high_of_b = (b.low, b.high) if operation == "add" else (-b.high, -b.low)
    low, high = a.low + low_of_b, a.high + high_of_b
    opposite = ((a.high == INFINITY) & (low_of_b == -INFINITY)) | ((a.low == -INFINITY) & (high_of_b == INFINITY))
    nan = a.nan | b.nan | opposite
    # An exact sum of zero is +0 unless both terms are -0; that of subnormal numbers is exact.
    minus = a.minus_zero & (b.minus_zero if operation == "add" else (b.low <= 0) & (b.high >= 0))
    return Interval(np.where(np.isnan(low), -INFINITY, low), np.where(np.isnan(high), INFINITY, high), nan, minus)


def _product(operation: str, a: Interval, b: Interval) -> Interval:
    function = NUMPY[operation]
    if a is b and operation == "multiply":
        nearest = np.clip(np.zeros_like(a.low), a.low, a.high)
        return Interval(nearest * nearest, np.maximum(a.low * a.low, a.high * a.high), a.nan, np.zeros_like(a.nan))
    corners = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    holds_zero = [(factor.low <= 0) & (factor.high >= 0) for factor in (a, b)]
    is_infinite = [np.isinf(factor.low) | np.isinf(factor.high) for factor in (a, b)]
    unbounded = np.logical_or.reduce([np.isnan(corner) for corner in corners])
    if operation == "divide":
        undefined = (holds_zero[0] & holds_zero[1]) | (is_infinite[0] & is_infinite[1])
        unbounded = unbounded | holds_zero[1]
    else:
        undefined = (holds_zero[0] & is_infinite[1]) | (is_infinite[0] & holds_zero[1])
        unbounded = unbounded | undefined
    low = np.where(unbounded, -INFINITY, np.fmin.reduce(corners))
    high = np.where(unbounded, INFINITY, np.fmax.reduce(corners))
    is_positive = (a.low > 0) & (b.low > 0) | (a.high < 0) & (b.high < 0)
    minus = ~is_positive & (low <= 0) & (high >= 0)
    return Interval(low, high, a.nan | b.nan | undefined, minus)


def _unary(operation: str, x: Interval) -> Interval:
    function = NUMPY[operation]
    if operation == "negate":
        return Interval(-x.high, -x.low, x.nan, (x.low <= 0) & (x.high >= 0))
    if operation == "absolute":
        inside = (x.low <= 0) & (x.high >= 0)
        ends = np.abs(x.low), np.abs(x.high)
        return Interval(np.where(inside, np.float32(0), np.minimum(*ends)), np.maximum(*ends), x.nan,
                        np.zeros_like(x.nan))  # fmt: skip
    if operation == "square_root":
        low = np.sqrt(np.maximum(x.low, np.float32(0)))
        high = np.where(x.high < 0, -INFINITY, np.sqrt(np.maximum(x.high, np.float32(0))))
        return Interval(low, high, x.nan | (x.low < 0), x.minus_zero)
    low, high = function(x.low), function(x.high)
    return Interval(low, high, x.nan, x.minus_zero | (x.low < 0) & (low <= 0) & (high >= 0))


FLOATS: Mapping[str, Callable[..., Interval]] = {
    **dict.fromkeys(("add", "subtract"), _sum),
    **dict.fromkeys(("multiply", "divide"), _product),
    **dict.fromkeys(UNARY, _unary),
}
