"""Stages of the exact language: values, folds and places against an interpreter of single numbers, errors, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators.exact.errors import item_errors, stage_errors
from harness.operators.exact.evaluation import NUMPY, TYPED, Evaluation
from harness.operators.exact.expression import (
    COMPARISONS,
    DefinitionError,
    Expression,
    expanded,
    larger,
    ordered,
    square_root,
)
from harness.operators.exact.functions import exponential, logarithm
from harness.operators.exact.stage_values import Program
from harness.operators.exact.stages import (
    SKIP,
    Axis,
    History,
    Item,
    Load,
    Recurrence,
    Source,
    Stage,
    State,
    array,
    fold,
    formula,
    place,
    program,
    recurrence,
    replaced,
    skipping,
    with_axis,
)

O, K, I = Axis("o", 3), Axis("k", 4), Axis("i", 2)  # noqa: E741 - the names of the axes
X = Source("x", (O, K, I))
SCALE = Source("scale", (K,), is_constant=True)
CONSTANTS = {"scale": np.float32([0.5, -2, 1 / 3, 7])}


def softmax() -> Stage:
    m = fold("m", (O, I), (K,), -np.inf, lambda m: larger(X[O, K, I], m))
    e = array("e", (O, K, I), exponential(X[O, K, I] - m[O, I]))
    s = fold("s", (O, I), (K,), 0, lambda s: s + e[O, K, I])
    return array("y", (O, K, I), e[O, K, I] / s[O, I])


def scaled_sum() -> Stage:
    """It starts with a value, multiplies by a constant, and has two axes in the order k, o."""
    return fold("s", (I,), (K, O), X[0, 1, I], lambda s: s + X[O, K, I] * SCALE[K])


def products() -> Stage:
    return fold("p", (O,), (K, I), 1, lambda p: p * X[O, K, I] + 0.25)


def windows() -> Stage:
    """Places are sums of axes times steps, and constants."""
    at, part = Axis("at", 2), Axis("part", 2)
    return fold("w", (O, at), (part,), 0.5, lambda w: w + square_root(abs(X[O, at * 2 + part, 1])) - X[2, 3, 0])


def logarithm_of_sum() -> Stage:
    s = fold("s", (), (O, K, I), 0, lambda s: s + abs(X[O, K, I]))
    return array("y", (O,), logarithm(s[()] + 1) + X[O, 0, 0])


def padded_windows() -> Stage:
    """Places outside on both sides, with strides and dilations, of two axes; the others are left out."""
    p, q, a, b = Axis("p", 3), Axis("q", 3), Axis("a", 2), Axis("b", 3)
    at = X.at((p * 2 + a * 2 - 1, q * 2 + b - 2, 1), SKIP)
    return fold("w", (p, q), (a, b), 0, lambda w: w + at * SCALE.at(q * 2 + b - 2, SKIP))


def largest_of_windows() -> Stage:
    """A window that has no value at all keeps the start; so does one of NaN."""
    p, a = Axis("p", 6), Axis("a", 2)
    return fold("m", (p, I), (a,), -np.inf, lambda m: larger(X.at((1, p + a - 2, I), SKIP), m))


def padding() -> Stage:
    """Places outside have a number, also in a sum of an axis of the array and one of the fold."""
    p, a = Axis("p", 5), Axis("a", 4)
    y = array("y", (O, p), X.at((O, p - 1, 1), 7) * 2)
    return fold("w", (O, p), (a,), 1, lambda w: w * y.at((O, p + a), 0.5))


def sums_from_the_end() -> Stage:
    """A recurrence of one state: the sums of the values behind a place."""
    [s] = recurrence(K, {"s": ((O, I), 0)}, lambda s: s[O, I] + X[O, place(K) * -1 + 3, I])
    return array("y", (O, K, I), s[place(K) * -1 + 3, O, I])


def two_states() -> Stage:
    """States with axes of their own, which read each other at all places; a stage is computed in each step."""
    j = Axis("j", 2)

    def step(h: State, c: State) -> list[Expression]:
        v = fold("v", (I,), (j,), 0.25, lambda v: v + h[j] * X[0, K, j])
        return [v[I] - c[1, I] * 0.5, c[O, I] * 0.5 + h[I] * SCALE[K]]

    m = fold("m", (I,), (K,), 0, lambda m: larger(X[0, K, I], m))
    h, c = recurrence(K, {"h": ((I,), m[I]), "c": ((O, I), 1)}, step)
    return array("y", (K, I), h[K + 1, I] + c[K, 2, I])


def guarded_steps() -> Stage:
    """Steps of a recurrence with places outside: of a fold, which are left out, and of a number."""
    a = Axis("a", 3)

    def step(h: State) -> Expression:
        w = fold("w", (O,), (a,), 0, lambda w: w + X.at((O, K + a - 1, 0), SKIP))
        return w[O] - h[O] * X.at((O, K - 1, 1), 2)

    [h] = recurrence(K, {"h": ((O,), X[O, 0, 0])}, step)
    return array("y", (O, K), h[K + 1, O] * h[K, O])


STAGES = {
    stage.__name__: stage
    for stage in (softmax, scaled_sum, products, windows, logarithm_of_sum, padded_windows, largest_of_windows, padding,
                  sums_from_the_end, two_states, guarded_steps)
}  # fmt: skip


class Interpreter:
    """The value of an array at a point, by single numbers."""

    def __init__(self, x: Array) -> None:
        self._x = x
        self._recurrences: dict[int, tuple[Recurrence, int]] = {}

    def at(self, stage: Stage, point: Mapping[Axis, int]) -> Any:
        if stage.accumulator is None:
            return self._value(stage.root, point, {})
        total = self._value(stage.start, point, {})
        for numbers in itertools.product(*(range(axis.size) for axis in stage.over)):
            step = {**point, **dict(zip(stage.over, numbers, strict=True))}
            if any(self._place(load, step) is None for load in skipping(stage.root)):
                continue
            total = self._value(stage.root, step, {stage.accumulator.name: total})
        return total

    def _value(self, root: Expression, point: Mapping[Axis, int], arguments: Mapping[str, Any]) -> Any:
        values: dict[int, Any] = {}
        nodes = ordered(expanded(root))
        for node in nodes:
            operands = [values[id(operand)] for operand in node.operands]
            if node.load is not None:
                values[id(node)] = self._load(node.load, point)
            elif node.operation == "argument":
                values[id(node)] = arguments[node.name]
            elif node.value is not None:
                values[id(node)] = node.value
            elif node.operation == "select":
                values[id(node)] = operands[1] if operands[0] else operands[2]
            else:
                typed = TYPED.get(node.operation)
                value = typed(node.dtype, *operands) if typed else NUMPY[node.operation](*operands)
                values[id(node)] = value if node.operation in COMPARISONS else node.dtype.type(value)
        return values[id(nodes[-1])]

    def _load(self, load: Load, point: Mapping[Axis, int]) -> Any:
        at, source = self._place(load, point), load.source
        if at is None:
            return load.outside
        if isinstance(source, Stage):
            return self.at(source, {**point, **dict(zip(source.axes, at, strict=True))})
        if isinstance(source, History):
            self._recurrences |= {id(state): (source.recurrence, number)
                                  for number, state in enumerate(source.recurrence.states)}  # fmt: skip
            number = source.recurrence.histories.index(source)
            return self._after(source.recurrence, number, at[0], at[1:])
        if isinstance(source, State):
            recurrence_of_state, number = self._recurrences[id(source)]
            return self._after(recurrence_of_state, number, point[source.time], at)
        values = CONSTANTS[source.name] if isinstance(source, Source) and source.is_constant else self._x
        return values.reshape(source.shape)[at]

    def _after(self, of: Recurrence, number: int, steps: int, at: tuple[int, ...]) -> Any:
        """Return a state after so many steps."""
        stage = of.results[number] if steps else of.starts[number]
        return self.at(stage, {**dict(zip(stage.axes, at, strict=True)), of.time: steps - 1})

    def _place(self, load: Load, point: Mapping[Axis, int]) -> tuple[int, ...] | None:
        at = tuple(place.constant + sum(step * point[axis] for axis, step in place.steps) for place in load.places)
        is_inside = all(0 <= number < size for number, size in zip(at, load.source.shape, strict=True))
        return at if is_inside else None


class RealNumbers(Interpreter):
    """The same in double precision, where functions are the real ones."""

    def _value(self, root: Expression, point: Mapping[Axis, int], arguments: Mapping[str, Any]) -> Any:
        loaded = {node.name: np.float64(self._load(node.load, point)) for node in ordered(root) if node.load}
        numbers = {name: np.array([value]) for name, value in {**arguments, **loaded}.items()}
        if root.value is not None:
            return np.float64(root.value)
        with np.errstate(all="ignore"):
            return Evaluation(root, is_real=True)(numbers)[0]


@pytest.mark.parametrize("name", STAGES)
def test_values_are_those_of_single_numbers_in_the_order_of_the_steps(name: str) -> None:
    result = STAGES[name]()
    vectors = np.random.default_rng(0).normal(size=(5, X.size)).astype(np.float32)
    values = Program(program(result), CONSTANTS)(vectors)
    points = list(itertools.product(*(range(size) for size in result.shape)))
    with np.errstate(all="ignore"):
        expected = [
            [Interpreter(x).at(result, dict(zip(result.axes, point, strict=True))) for point in points] for x in vectors
        ]
    assert values.tobytes() == np.float32(expected).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_results_in_double_precision_are_within_the_errors(name: str, error: float) -> None:
    stages, count = program(STAGES[name]()), 10
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(count, X.size)).astype(np.float32)
    other = vectors + rng.uniform(-error, error, vectors.shape)
    prepared = Program(stages, CONSTANTS)
    values = prepared.values([vectors])
    errors = {id(X): np.full((count, *X.shape), error), id(SCALE): np.zeros((1, 4))}
    for item in stages:
        errors |= item_errors(item, values, errors, count)
    right, expected = real_values(prepared.result, other), values[id(stages[-1])].reshape(count, -1)
    distance = np.where(right == expected, 0, np.abs(right - expected))
    bound = errors[id(stages[-1])].reshape(count, -1)
    assert (distance <= bound).all()
    assert (distance > bound / 1000).any() or name == "largest_of_windows"
    assert np.median(bound) < (1e-4 if error == 0 else 2)


def real_values(result: Stage, x: Array) -> Array:
    """The results of real numbers, one by one."""
    points = [dict(zip(result.axes, point, strict=True)) for point in np.ndindex(result.shape)]
    return np.array([[RealNumbers(vector).at(result, point) for point in points] for vector in x])


def test_the_error_bound_of_a_quotient_by_what_can_be_zero_is_infinite() -> None:
    stage = array("y", (O, K, I), 1 / X[O, K, I])
    x = np.full((1, *X.shape), np.float32(0.5))
    for error, is_finite in ((0.49, True), (0.5, False)):
        errors = {id(X): np.full(x.shape, error)}
        assert np.isfinite(stage_errors(stage, {id(X): x}, errors, 1)).all() == is_finite


def test_the_text_names_each_stage_its_axes_and_the_order_of_its_steps() -> None:
    assert formula(program(softmax())) == [
        "m[o, i] = -inf, then select(x[o, k, i] > m, x[o, k, i], m) for k from 0 on",
        "e[o, k, i] = exponential(x[o, k, i] - m[o, i])",
        "s[o, i] = 0.0, then s + e[o, k, i] for k from 0 on",
        "y[o, k, i] = e[o, k, i] / s[o, i]",
    ]


def stage_of(item: Item) -> Stage:
    assert isinstance(item, Stage)
    return item


def test_a_stage_is_replaced_for_all_that_read_it() -> None:
    stages = program(softmax())
    sums = stage_of(stages[2])
    others = replaced(stages, sums, with_axis(sums, K, Axis("k", 3)))
    x = np.random.default_rng(2).normal(size=(4, X.size)).astype(np.float32)
    e = np.exp(x.reshape(-1, *X.shape) - x.reshape(-1, *X.shape).max(axis=2, keepdims=True))
    expected = e / e[:, :, :3].sum(axis=2, keepdims=True)
    np.testing.assert_allclose(Program(others, {})(x).reshape(expected.shape), expected, rtol=1e-5)
    assert others[:2] == stages[:2]


def test_the_text_of_a_guard_says_which_steps_there_are() -> None:
    p, a = Axis("p", 5), Axis("a", 4)
    y = array("y", (O, p), X.at((O, p - 1, 1), 7) * 2)
    assert formula([y, fold("w", (p,), (a,), 1, lambda w: w + SCALE.at(p + a - 2, SKIP))]) == [
        "y[o, p] = x[o, p - 1, 1 else 7.0] * 2.0",
        "w[p] = 1.0, then w + scale[p + a - 2] for a from 0 on where scale[p + a - 2] exists",
    ]


def test_a_place_that_is_never_outside_has_no_guard() -> None:
    assert X.at((O, 3, I), SKIP).load == X[O, 3, I].load


def test_the_text_of_a_recurrence_has_the_place_of_each_step() -> None:
    assert formula(program(two_states())) == [
        "m[i] = 0.0, then select(x[0, k, i] > m, x[0, k, i], m) for k from 0 on",
        "h[0, i] = m[i]",
        "c[0, o, i] = 1.0",
        "for k from 0 on: v[i] = 0.25, then v + h[k, j] * x[0, k, j] for j from 0 on; "  # noqa: ISC004
        "h[k + 1, i] = v[i] - c[k, 1, i] * 0.5; c[k + 1, o, i] = c[k, o, i] * 0.5 + h[k, i] * scale[k]",
        "y[k, i] = h[k + 1, i] + c[k, 2, i]",
    ]


def test_a_stage_of_a_recurrence_is_replaced_for_all_that_read_it() -> None:
    items = program(two_states())
    steps = items[1]
    assert isinstance(steps, Recurrence)
    inner = steps.stages[0]
    assert inner.accumulator is not None
    wrong = replace(inner, root=inner.root - inner.accumulator)
    x = np.random.default_rng(2).normal(size=(4, X.size)).astype(np.float32)
    others = Program(replaced(items, inner, wrong), CONSTANTS)
    images = x.reshape(-1, *X.shape)
    y = Program(items, CONSTANTS)(x).reshape(-1, 4, 2)
    assert not np.array_equal(others(x).reshape(y.shape)[:, 0], y[:, 0])
    last = images[:, 0, 0, 1] * np.maximum(images[:, 0, :, 1].max(axis=1), 0)
    np.testing.assert_allclose(others(x).reshape(y.shape)[:, 0], (last - 0.5 + 1)[:, None].repeat(2, axis=1), atol=1e-5)
    assert replaced(items, inner, wrong)[0] is items[0]


Q = Axis("q", 4)
UNGUARDED: dict[str, Any] = {
    "an array has no step": lambda: array("y", (Q,), SCALE.at(Q - 1, SKIP)),
    "nor has a start": lambda: fold("y", (Q,), (O,), SCALE.at(Q - 1, SKIP), lambda y: y + 1),
    "several axes of the array": lambda: fold("y", (O, Q), (I,), 0, lambda y: y + SCALE.at(O + Q, SKIP)),
    "a place for each axis": lambda: X.at((O, K), SKIP),
    "a falling place": lambda: fold("y", (O,), (Q,), 0, lambda y: y + SCALE.at(place(Q) * -1 + 2, SKIP)),
    "an array of bools": lambda: array("y", (O, K, I), X[O, K, I] < 0),
}


@pytest.mark.parametrize("case", UNGUARDED)
def test_a_guard_without_a_meaning_is_refused(case: str) -> None:
    with pytest.raises(DefinitionError, match="use"):
        UNGUARDED[case]()


@pytest.mark.parametrize(
    "places", [(O, K), (O, K + 1, I), (O, place(K) * -1 + 2, I), (O, K * 2, I), (O, K, 2), (-1, K, I)]
)
def test_a_place_outside_is_refused(places: Any) -> None:
    with pytest.raises(DefinitionError, match=r"a value of x \(3, 4, 2\) .* is outside"):
        X[places]
