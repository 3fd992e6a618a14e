"""Linear forms of loop counters."""

from __future__ import annotations

import pytest

from harness.applications.wcet import values
from harness.applications.wcet.values import DATA, MASK, VARIES, Linear, NotAffineError, Value


def form(constant: int, factor: int, limit: int) -> Linear:
    return Linear(constant, {values.counter(limit): factor})


def limit_of(value: Linear) -> int:
    [counter] = value.factors
    return counter.limit


def test_forms_add_and_cancel() -> None:
    of = values.counter(10)
    a, b = Linear(5, {of: 3}), Linear(7, {of: 3})
    assert values.subtract(a, b) == MASK - 1
    assert values.add(a, b) == Linear(12, {of: 6})
    assert values.multiply(a, MASK) == Linear(-5 & MASK, {of: -3})


@pytest.mark.parametrize(
    ("constant", "factor", "below", "limit"),
    [(-10, 3, True, 4), (-9, 3, True, 3), (4, -2, False, 3), (0, 5, False, 100), (-1, -1, True, 100)],
)
def test_a_decision_holds_within_the_lowered_limit(constant: int, factor: int, below: bool, limit: int) -> None:
    value = form(constant, factor, 100)
    assert values.is_negative(value) is below
    assert limit_of(value) == limit
    assert all((constant + factor * k < 0) is below for k in range(limit))
    assert limit == 100 or (constant + factor * limit < 0) is not below


def test_zero_is_decided_up_to_where_a_form_reaches_it() -> None:
    value = form(-6, 2, 100)
    assert not values.is_zero(value)
    assert limit_of(value) == 3
    with pytest.raises(NotAffineError):
        values.is_zero(form(0, 2, 100))


def test_the_youngest_counter_is_limited() -> None:
    outer, inner = values.counter(4), values.counter(1000)
    assert values.is_negative(Linear(-100, {outer: 10, inner: 1}))
    assert (outer.limit, inner.limit) == (4, 70)
    with pytest.raises(NotAffineError):
        values.is_negative(Linear(-20, {outer: 10, inner: 1}))


@pytest.mark.parametrize(("value", "divisor", "quotient"), [(17, 4, 4), (-1, 4, -1), (-8, 4, -2)])
def test_division_rounds_down(value: int, divisor: int, quotient: int) -> None:
    assert values.divide(value, divisor) == quotient


def test_a_form_is_divided_where_it_stays_a_form() -> None:
    of = values.counter(10)
    assert values.divide(Linear(9, {of: 8}), 4) == Linear(2, {of: 2})
    rest = form(9, 1, 10)
    assert values.divide(rest, 4) == 2
    assert limit_of(rest) == 3


def test_low_bits_are_exact_while_they_do_not_wrap() -> None:
    value = form((1 << 32) - 3, 1, 100)
    assert values.fit(value, 32) is not None
    assert limit_of(value) == 3


@pytest.mark.parametrize(
    ("a", "b", "result"), [(DATA, 1, DATA), (VARIES, DATA, DATA), (VARIES, 1, VARIES), (0, DATA, DATA)]
)
def test_unknown_values_stay_unknown(a: Value, b: Value, result: Value) -> None:
    assert values.add(a, b) is result
