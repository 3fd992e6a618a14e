"""Error bounds of stages: how far other right results can be from the specified ones, for inputs within errors.

A right result has the same operations on real numbers, each rounded to float32 or more exactly; its sums have any
order.  An operation gives its exact result times 1 + d with |d| <= u = 2^-24, and a function its real value within
`Function.others` units in the last place and `Function.difference` (Higham, Accuracy and Stability, 2.2 and 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from harness.core.arrays import Array
from harness.operators.exact.evaluation import NUMPY, numpy_function
from harness.operators.exact.expression import (
    ARITHMETIC,
    BOOL,
    COMPARISONS,
    FLOAT32,
    LEAVES,
    Expression,
    Function,
    ordered,
)
from harness.operators.exact.stage_values import NONE_FIXED, Advance, Fixed, arguments, each_step, histories
from harness.operators.exact.stages import Axis, Item, Stage, skipping
from harness.operators.float_errors import UNDERFLOW, UNIT_ROUNDOFF, gamma
from harness.operators.tensor import LARGEST

BOTH = 2.01 * UNIT_ROUNDOFF
"""The specified result and another one are rounded."""


FLUSHED = 2.0**-126
"""The most that a library changes by giving 0 for a subnormal result."""


class Inexact(NamedTuple):
    """Specified values and the largest difference of other ones, float64; infinite without a bound."""

    value: Array
    error: Array


Arrays: TypeAlias = Mapping[int, Array]


def item_errors(item: Item, values: Arrays, errors: Arrays, vectors: int) -> dict[int, Array]:
    """Return the errors of the arrays of an item by identity, float64 (vectors, *shape)."""
    if isinstance(item, Stage):
        return {id(item): stage_errors(item, values, errors, vectors)}
    known_values, known_errors, steps = dict(values), dict(errors), Advance(item)

    def error(stage: Stage, fixed: Fixed) -> Array:
        for state, history in zip(item.states, item.histories, strict=True) if fixed else ():
            known_values[id(state)] = np.ascontiguousarray(values[id(history)][:, fixed[item.time]])
        known_values[id(stage)] = steps.value(stage, known_values, vectors, fixed)
        return stage_errors(stage, known_values, known_errors, vectors, fixed)

    return histories(item, known_errors, error)


def stage_errors(stage: Stage, values: Arrays, errors: Arrays, vectors: int, fixed: Fixed = NONE_FIXED) -> Array:
    """Return the errors of a stage, float64 (vectors, *shape), for the values and errors of what it reads."""

    def read_by(root: Expression, over: Sequence[Axis] = ()) -> dict[str, Inexact]:
        read = arguments(root, values, stage, over, vectors, fixed)
        of_read = arguments(root, errors, stage, over, vectors, fixed, of_errors=True)
        return {name: Inexact(value, of_read[name]) for name, value in read.items()}

    with np.errstate(all="ignore"):
        if stage.accumulator is None:
            error = inexact(stage.root, read_by(stage.root)).error
        elif any(skipping(stage.root)):
            start = inexact(stage.start, read_by(stage.start))
            error = _by_steps(stage, start, each_step(stage, [values, errors], vectors, fixed), vectors)
        else:
            error = _of_fold(stage, read_by, vectors)
    shape = (vectors, *stage.shape)
    bound: Array = np.broadcast_to(np.where(np.isnan(error), np.inf, error), shape)
    return np.ascontiguousarray(bound)


def _of_fold(stage: Stage, read_by: Callable[..., dict[str, Inexact]], vectors: int) -> Array:
    start = inexact(stage.start, read_by(stage.start))
    if stage.is_sum:
        term = stage.root.operands[1]
        value, error = inexact(term, read_by(term, stage.over))
        axes = tuple(range(len(stage.over)))
        magnitudes = (np.abs(value.astype(np.float64)) + error).sum(axis=axes) + np.abs(start.value) + start.error
        return _of_sum(magnitudes, error.sum(axis=axes) + start.error, stage.steps)
    assert stage.accumulator is not None  # noqa: S101 - by the caller
    name, arguments = stage.accumulator.name, read_by(stage.root, stage.over)
    count = len(stage.over)
    flat = {key: Inexact(*(each.reshape(stage.steps, *each.shape[count:]) for each in pair))
            for key, pair in arguments.items()}  # fmt: skip
    shape = (vectors, *stage.shape)
    total = Inexact(np.broadcast_to(start.value, shape), np.broadcast_to(start.error, shape))

    def step(so_far: Inexact, number: int) -> Inexact:
        here = {key: Inexact(pair.value[number], pair.error[number]) for key, pair in flat.items()}
        return inexact(stage.root, {**here, name: so_far})

    return reduce(step, range(stage.steps), total).error


def _of_sum(magnitudes: Array, error: Array, steps: int) -> Array:
    """Return the error of sums of terms of these magnitudes in all, and with these errors in all."""
    return np.where(magnitudes * (1 + 2.0**-10) < LARGEST, error + 2 * gamma(steps) * magnitudes, np.inf)


def _by_steps(stage: Stage, start: Inexact, steps: Iterable[Any], vectors: int) -> Array:
    """Return the error of a fold of which some steps are left out at some places."""
    assert stage.accumulator is not None  # noqa: S101 - by the caller
    shape = (vectors, *stage.shape)
    total, error = (np.array(np.broadcast_to(part, shape)) for part in start)
    magnitudes = np.abs(total.astype(np.float64)) + error
    for _, box, (read, of_read) in steps:
        inputs = {name: Inexact(value, of_read[name]) for name, value in read.items()}
        if stage.is_sum:
            term = inexact(stage.root.operands[1], inputs)
            error[box] += term.error
            magnitudes[box] += np.abs(term.value.astype(np.float64)) + term.error
        else:
            so_far = Inexact(total[box], error[box])
            total[box], error[box] = inexact(stage.root, {**inputs, stage.accumulator.name: so_far})
    return _of_sum(magnitudes, error, stage.steps) if stage.is_sum else error


def inexact(root: Expression, arguments: Mapping[str, Inexact], *, is_rounded: bool = True) -> Inexact:
    """Return the value of an expression and its error; without `is_rounded` that of operations on real numbers."""
    results: dict[int, Any] = {}
    for node in ordered(root):
        operands = [results[id(operand)] for operand in node.operands]
        if node.operation in LEAVES:
            results[id(node)] = arguments[node.name]
        elif node.value is not None:
            results[id(node)] = Inexact(np.asarray(node.value), np.zeros(()))
        elif node.operation == "select":
            results[id(node)] = _selection(node, operands)
        elif node.function is not None:
            results[id(node)] = _call(node.function, *operands)
        elif node.operation in COMPARISONS:
            results[id(node)] = _comparison(node.operation, *operands)
        elif node.dtype == BOOL:
            value = NUMPY[node.operation](*(operand.value for operand in operands))
            results[id(node)] = Inexact(value, np.maximum(*(np.minimum(operand.error, 1) for operand in operands)))
        else:
            results[id(node)] = _operation(node, operands, is_rounded=is_rounded)
    result: Inexact = results[id(root)]
    return result


def _comparison(operation: str, a: Inexact, b: Inexact) -> Inexact:
    """Return the condition, and as error whether it can be the other one."""
    both = a.error + b.error
    can_differ = (both > 0) & (np.abs(a.value.astype(np.float64) - b.value) <= both)
    return Inexact(NUMPY[operation](a.value, b.value), can_differ.astype(np.float64))


def _selection(node: Expression, operands: Sequence[Inexact]) -> Inexact:
    condition, one, other = operands
    value = np.where(condition.value, one.value, other.value)
    if set(map(id, node.operands[1:])) == set(map(id, node.operands[0].operands)):  # the larger or the smaller one
        return Inexact(value, np.maximum(one.error, other.error))
    here = np.where(condition.value, one.error, other.error)
    apart = np.abs(one.value.astype(np.float64) - other.value)
    there = np.where(condition.value, other.error, one.error) + np.where(np.isnan(apart), np.inf, apart)
    return Inexact(value, np.where(condition.error > 0, np.maximum(here, there), here))


def _call(function: Function, x: Inexact) -> Inexact:
    evaluate = numpy_function(function)

    def at(numbers: Array) -> Array:
        return evaluate(np.atleast_1d(numbers)).reshape(np.shape(numbers))

    exact = x.value.astype(np.float64)
    low = np.nextafter((exact - x.error).astype(np.float32), np.float32(-np.inf))
    high = np.nextafter((exact + x.error).astype(np.float32), np.float32(np.inf))
    ends, value = [at(low), at(high)], at(x.value)
    change = np.where(x.error > 0, np.maximum(*(np.abs(end.astype(np.float64) - value) for end in ends)), 0)
    largest = np.maximum(np.abs(value), np.where(x.error > 0, np.maximum(*map(np.abs, ends)), 0))
    ulp = np.maximum(np.abs(largest.astype(np.float64)), float(np.finfo(np.float32).tiny)) * 2.0**-23
    return Inexact(value, change + (2 * function.ulp + function.others) * ulp + function.difference + FLUSHED)


def _operation(node: Expression, operands: Sequence[Inexact], *, is_rounded: bool) -> Inexact:
    value = NUMPY[node.operation](*(operand.value for operand in operands))
    if node.dtype != FLOAT32 or node.operation not in RULES:
        is_exact = sum((operand.error for operand in operands), np.zeros(())) == 0
        return Inexact(value, np.where(is_exact, 0.0, np.inf))
    change, exact = RULES[node.operation](*operands)
    if is_rounded and node.operation in ROUNDED:
        # A sum of subnormal numbers is exact.
        change = change + BOTH * (np.abs(exact) + change) + (0 if node.operation in SUMS else UNDERFLOW)
        change = np.where((np.abs(exact) + change) * (1 + 2.0**-10) < LARGEST, change, np.inf)
    return Inexact(value, np.where(np.isnan(change), np.inf, change))


def _sum(a: Inexact, b: Inexact) -> tuple[Array, Array]:
    return a.error + b.error, a.value.astype(np.float64) + b.value


def _product(a: Inexact, b: Inexact) -> tuple[Array, Array]:
    one, other = (np.abs(each.value.astype(np.float64)) for each in (a, b))
    return one * b.error + other * a.error + a.error * b.error, one * other


def _quotient(a: Inexact, b: Inexact) -> tuple[Array, Array]:
    one, other = (np.abs(each.value.astype(np.float64)) for each in (a, b))
    least = other - b.error
    change = np.where(least > 0, (a.error + one / other * b.error) / least, np.inf)
    return np.where(a.error + b.error == 0, 0, change), one / other


def _root(a: Inexact) -> tuple[Array, Array]:
    x = np.maximum(a.value.astype(np.float64), 0)
    below = np.sqrt(np.maximum(x - a.error, 0))
    change = np.maximum(np.sqrt(x + a.error) - np.sqrt(x), np.sqrt(x) - below)
    return change, np.sqrt(x)


SUMS = ("add", "subtract")
ROUNDED = (*ARITHMETIC, "square_root")
RULES: Mapping[str, Callable[..., tuple[Array, Array]]] = {
    "add": _sum,
    "subtract": lambda a, b: _sum(a, Inexact(-b.value, b.error)),
    "multiply": _product,
    "divide": _quotient,
    "square_root": _root,
    "negate": lambda a: (a.error, a.value),
    "absolute": lambda a: (a.error, a.value),
}
"""The change of each operation on real numbers within errors, and its result; those without a rule have no bound."""


def linear(root: Expression, changes: Mapping[str, Array], constants: Mapping[str, Array]) -> Array | None:
    """Return the exact change of an expression for changes of some arguments, float64; None if it is not linear."""
    moved: dict[int, Array] = {}
    fixed: dict[int, Array] = {}
    for node in ordered(root):
        operands = [moved.get(id(operand)) for operand in node.operands]
        if node.operation == "argument" and node.name in changes:
            moved[id(node)] = changes[node.name]
        elif node.operation == "argument" or node.value is not None:
            number = constants[node.name] if node.value is None else node.value
            fixed[id(node)] = np.asarray(number, np.float64)
        elif node.operation not in ARITHMETIC:
            return None
        elif all(operand is None for operand in operands):
            fixed[id(node)] = NUMPY[node.operation](*(fixed[id(operand)] for operand in node.operands))
        elif node.operation in SUMS:
            moved[id(node)] = NUMPY[node.operation](*(0 if operand is None else operand for operand in operands))
        elif operands[1] is None:
            moved[id(node)] = NUMPY[node.operation](operands[0], fixed[id(node.operands[1])])
        elif operands[0] is None and node.operation == "multiply":
            moved[id(node)] = operands[1] * fixed[id(node.operands[0])]
        else:
            return None
    return moved.get(id(root))
