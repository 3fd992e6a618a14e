"""The rules of the language (docs/reference/definitions.md): types, operations, special values, errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.core.installation import ROOT
from harness.operators.exact import functions, mutations, printing
from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.expression import (
    BOOL,
    INT8,
    INT32,
    UINT8,
    UINT32,
    DefinitionError,
    Expression,
    argument,
    bits,
    calls,
    ceiling,
    code,
    converted,
    equal,
    expanded,
    floor,
    from_bits,
    function,
    fused,
    integer,
    is_nan,
    larger,
    literal,
    named,
    number,
    ordered,
    round_half_even,
    select,
    shifted,
    smaller,
    square_root,
    unary,
)
from harness.operators.exact.integers import IntegerEvaluation, canonical
from harness.operators.exact.ranges import Interval, interval

INF, NAN = np.inf, np.nan
LEAST, LARGEST = np.float32(1e-45), np.finfo(np.float32).max


def value(definition: Callable[..., Expression], *numbers: float, dtype: Any = np.float32) -> Any:
    """Return the value of a definition for numbers; both evaluations agree on it."""
    names = "xyz"[: len(numbers)]
    root = definition(*(argument(name, np.dtype(dtype)) for name in names))
    arrays = {name: np.array([number], dtype) for name, number in zip(names, numbers, strict=True)}
    result = Evaluation(root)(arrays)
    np.testing.assert_array_equal(canonical(IntegerEvaluation(root)(arrays)), canonical(result))
    return result[0]


def assert_bits(output: Any, right: float) -> None:
    expected = np.asarray(right, output.dtype)
    assert np.asarray(output).tobytes() == expected.tobytes(), (output, right)


FLOATS: list[tuple[str, Callable[..., Expression], tuple[float, ...], float]] = [
    ("a sum is rounded half to even", lambda x, y: x + y, (1, 2.0**-24), 1),
    ("a sum is rounded half to even, up", lambda x, y: x + y, (1 + 2.0**-23, 2.0**-24), 1 + 2.0**-22),
    ("opposite numbers", lambda x, y: x + y, (-1, 1), 0.0),
    ("zeros of one sign", lambda x, y: x + y, (-0.0, -0.0), -0.0),
    ("a difference of zeros", lambda x, y: x - y, (-0.0, 0.0), -0.0),
    ("overflow", lambda x, y: x + y, (LARGEST, LARGEST), INF),
    ("a subnormal product", lambda x, y: x * y, (2.0**-100, 2.0**-49), LEAST),
    ("a product that is half of the least number", lambda x, y: x * y, (2.0**-100, 2.0**-50), 0),
    ("a quotient by zero", lambda x, y: x / y, (-1, 0.0), -INF),
    ("a quotient is no product with the reciprocal", lambda x, y: x / y, (5, 3), np.float32(5) / np.float32(3)),
    ("the negative of zero", lambda x: -x, (0.0,), -0.0),
    ("the magnitude of -0", abs, (-0.0,), 0.0),
    ("a square root", square_root, (2,), np.sqrt(np.float32(2))),
    ("the square root of -0", square_root, (-0.0,), -0.0),
    ("floor", floor, (-0.5,), -1),
    ("ceiling keeps the sign", ceiling, (-0.5,), -0.0),
    ("truncation keeps the sign", lambda x: unary("truncate", x), (-0.9,), -0.0),
    ("half to even", round_half_even, (2.5,), 2),
    ("half to even of a negative number", round_half_even, (-0.5,), -0.0),
    ("an infinity is no number to round", floor, (-INF,), -INF),
    ("a choice keeps bits", lambda x, y: select(x < y, x, y), (-0.0, 0.0), 0.0),
    ("of two zeros the second is the smaller one", smaller, (-0.0, 0.0), 0.0),
    ("of two zeros the second is the larger one", larger, (0.0, -0.0), -0.0),
    ("of a NaN and a number the second", smaller, (NAN, 3), 3),
    ("of two numbers of Python", lambda x: select(is_nan(x), 1, 2), (NAN,), 1),
    ("a fused multiply-add rounds once", fused, (1 + 2.0**-23, 1 + 2.0**-23, -1 - 2.0**-22), 2.0**-46),
    ("a fused multiply-add near half way", fused, (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60), 1 + 2.0**-11 + 2.0**-23),
    ("a fused sum of opposite numbers", fused, (1, -1, 1), 0.0),
    ("a fused sum of negative zeros", fused, (0.0, -1, -0.0), -0.0),
    ("an overflow of a fused sum", fused, (LARGEST, 2, LARGEST), INF),
    ("a subnormal fused sum", fused, (2.0**-100, 2.0**-49, LEAST), 2 * LEAST),
    ("the bits of a float32", lambda x: from_bits(bits(x) ^ 0x80000000), (1.5,), -1.5),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "numbers", "right"), [case[1:] for case in FLOATS], ids=[c[0] for c in FLOATS])
def test_an_operation_on_float32(definition: Any, numbers: tuple[float, ...], right: float) -> None:
    assert_bits(value(definition, *numbers), right)


@pytest.mark.parametrize(
    "definition",
    [
        lambda x: x < 1,
        lambda x: x <= 1,
        lambda x: x > 1,
        lambda x: x >= 1,
        lambda x: equal(x, x),
        lambda x: (x < INF) | (x >= INF),
    ],
)
def test_a_comparison_with_nan_is_false(definition: Any) -> None:
    assert not value(definition, NAN)


@pytest.mark.parametrize("definition", [lambda x: x - x, lambda x: x * 0, lambda x: x / x])
def test_invalid_operations_of_infinities_give_nan(definition: Any) -> None:
    assert np.isnan(value(definition, INF))


def test_zeros_are_equal_and_nan_is_recognised_by_its_bits() -> None:
    assert value(equal, -0.0, 0.0)
    assert value(is_nan, NAN)
    assert not value(is_nan, INF)


@pytest.mark.parametrize(
    ("definition", "number", "right"),
    [
        (lambda x: x + 1, 0xFFFFFFFF, 0),
        (lambda x: x - 1, 0, 0xFFFFFFFF),
        (lambda x: x * 0x10001, 0x10000, 0x10000),
        (lambda x: x >> 31, 0x80000000, 1),
        (lambda x: x << 31, 3, 0x80000000),
        (lambda x: (x & 6) | 8, 5, 12),
        (lambda x: x ^ 0xFFFFFFFF, 5, 0xFFFFFFFA),
        (lambda x: select(x > 0x7FFFFFFF, x, literal(7, UINT32)), 0x80000000, 0x80000000),
    ],
)
def test_an_operation_on_uint32_is_modulo_2_32(definition: Any, number: int, right: int) -> None:
    assert_bits(value(definition, number, dtype=np.uint32), right)


@pytest.mark.parametrize(
    ("definition", "right"),
    [
        (lambda x, y: x & y, [0, 0, 0, 1]),
        (lambda x, y: x | y, [0, 1, 1, 1]),
        (lambda x, y: x ^ y, [0, 1, 1, 0]),
        (lambda x, y: equal(x, y) ^ True, [0, 1, 1, 0]),
        (lambda x, y: select(x, y, y ^ True), [1, 0, 0, 1]),
    ],
)
def test_an_operation_on_bools(definition: Any, right: list[int]) -> None:
    pairs = [(False, False), (False, True), (True, False), (True, True)]
    assert [int(value(definition, *pair, dtype=np.bool_)) for pair in pairs] == right


@pytest.mark.parametrize(
    ("v", "zero_point", "dtype", "right"),
    [
        (0.5, 0, UINT8, 0),
        (1.5, 3, UINT8, 5),
        (-2.5, 3, INT8, 1),
        (126.5, 1, INT8, 127),
        (-300, 200, UINT8, 0),
        (-INF, 255, UINT8, 0),
        (INF, -128, INT8, 127),
        (NAN, 7, INT8, -128),
        (NAN, 7, UINT8, 0),
    ],
)
def test_a_code_is_rounded_half_to_even_and_limited_behind_the_zero_point(
    v: float, zero_point: int, dtype: Any, right: int
) -> None:
    assert_bits(value(lambda x: code(x, zero_point, dtype), v), right)
    assert value(lambda x: code(x, zero_point, dtype), v).dtype == dtype


@pytest.mark.parametrize(
    ("whole", "dtype", "right"),
    [(-128, INT8, -128), (255, UINT8, 255), (0, INT32, 0), (1 - (1 << 31), INT32, -(2.0**31)),
     ((1 << 24) + 1, INT32, 2.0**24), ((1 << 24) + 3, INT32, 2.0**24 + 4)],
)  # fmt: skip
def test_the_number_of_an_integer_is_the_nearest_float32(whole: int, dtype: Any, right: float) -> None:
    converted = number if dtype == INT32 else lambda x: number(integer(x))
    assert_bits(value(converted, whole, dtype=dtype), right)


@pytest.mark.parametrize(
    ("definition", "right"),
    [(lambda x, y: integer(x) + integer(y), -129), (lambda x, y: integer(x) - integer(y), -127),
     (lambda x, y: integer(x) * (integer(y) - 300), 38528), (lambda x, y: select(integer(x) < integer(y), 7, 9), 7)],
)  # fmt: skip
def test_an_operation_on_int32_is_exact(definition: Any, right: int) -> None:
    assert value(definition, -128, -1, dtype=np.int8) == right


def _decides(x: Expression) -> Expression:
    return x if x < 1 else -x


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (lambda x: x + bits(x), "an operation of float32 and uint32"),
        (lambda x: x & x, "and of float32"),
        (lambda x: (x < 1) / (x < 2), "divide of bool"),
        (lambda x: shifted("shift_left", integer(code(x, 0, INT8)), integer(code(x, 0, INT8))), "shift_left of int32"),
        (lambda x: converted(x, BOOL), "the conversion of float32 to bool"),
        (lambda x: bits(x) << bits(x), "shift_left by a computed number"),
        (lambda x: bits(x) << 32, "shift_left by a computed number"),
        (lambda x: bits(x) + 0.5, "0.5 as uint32"),
        (lambda x: square_root(bits(x)), "uint32 in the place of float32"),
        (lambda x: select(x, x, x), "float32 in the place of bool"),
        (lambda x: (x < 1) + (x < 2), "add of bool"),
        (lambda x: (x < 1) << 1, "shift_left of bool"),
        (lambda x: (x < 1) < (x < 2), "less of bool"),
        (lambda x: (x < 1) & bits(x), "an operation of bool and uint32"),
        (number, "float32 in the place of int32"),
        (lambda x: fused(x, x, bits(x)), "an operation of float32 and uint32"),
        (lambda x: code(x, x, INT8), "float32 in the place of int32"),
        (lambda x: code(bits(x), 0, INT8), "uint32 in the place of float32"),
        (integer, "the integer of float32"),
        (_decides, "a decision of Python about a value"),
    ],
)
def test_a_broken_rule_is_an_error_that_names_the_line(definition: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=rf"test_expression\.py:\d+, .*: {re.escape(message)}"):
        definition(argument("x"))


def test_a_shared_value_is_computed_once_and_written_once() -> None:
    x = argument("x")
    square = named("square", x * x)
    root = square + square
    assert len(ordered(root)) == 3
    assert list(printing.statements(root)) == [("square", "x * x"), ("y", "square + square")]


def test_text_has_the_brackets_of_the_order() -> None:
    x = argument("x")
    assert printing.inline(x - (x - 1)) == "x - (x - 1.0)"
    assert printing.inline((x * x) * -x) == "x * x * (-x)"
    assert printing.inline(x * (x * x)) == "x * (x * x)"
    assert printing.inline((x + 1) / (x - 0.1)) == "(x + 1.0) / (x - 0.1)"


def test_a_call_is_the_definition_of_its_function() -> None:
    x = argument("x")

    @function(np.square, ulp=0.5)
    def square(a: Expression) -> Expression:
        return a * a

    root = square(x + 1) + square(x)
    assert [called.name for called in calls(root)] == ["square"]
    assert printing.inline(root) == "square(x + 1.0) + square(x)"
    assert printing.inline(expanded(root)) == "(x + 1.0) * (x + 1.0) + x * x"
    assert value(lambda x: square(x + 1) + square(x), 2) == 13


@pytest.mark.parametrize(
    ("name", "limit", "low", "high"),
    [
        ("exponential", 0.78, -104, 88),
        ("exponential_minus_one", 0.92, -30, 0),
        ("hyperbolic_tangent", 1.35, -12, 12),
        ("logistic", 1.68, -104, 20),
        ("logarithm", 0.9, 0, 10),
        ("logarithm_of_one_plus", 1.3, 0, 1),
        ("error_function", 1.6, -4.2, 4.2),
    ],
)
def test_a_function_is_within_its_stated_distance(name: str, limit: float, low: float, high: float) -> None:
    definition = getattr(functions, name)
    assert definition.ulp == limit
    x = np.random.default_rng(2).uniform(low, high, 1 << 19).astype(np.float32)
    exact = definition.real(x.astype(np.float64))
    ulp = 2.0 ** np.maximum(np.frexp(exact)[1] - 24, -149)
    errors = np.abs(Evaluation(definition.root)({"x": x}) - exact) / ulp
    assert limit * 0.7 < errors.max() <= limit


@pytest.mark.parametrize(
    ("definition", "low", "high", "least", "most"),
    [
        (lambda x: x * x, -2, 3, 0, 9),
        (lambda x: select(x < 0, 0, x), -2, 3, 0, 3),
        (lambda x: smaller(larger(x, -1), 1), -5, 0.5, -1, 0.5),
        (abs, -2, 1, 0, 2),
        (lambda x: 1 / x, -1, 1, -INF, INF),
        (lambda x: x / (1 + abs(x)), -1, 3, -1, 3),
        (floor, -0.5, 2.5, -1, 2),
        (square_root, 0, 4, 0, 2),
    ],
)
def test_bounds_are_results_at_the_ends(definition: Any, low: float, high: float, least: float, most: float) -> None:
    x = argument("x")
    bounds = interval(definition(x), {"x": Interval.between(np.float32([low]), np.float32([high]))})
    assert (bounds.low[0], bounds.high[0], bounds.nan[0]) == (least, most, False)


@pytest.mark.parametrize(
    ("definition", "low", "high"),
    [
        (lambda x: x - x, -INF, INF),
        (lambda x: x * 0, 0, INF),
        (lambda x: x / x, -1, 1),
        (square_root, -1, 1),
        (lambda x: floor(x) * (x - x), 0, INF),
    ],
)
def test_a_possible_nan_is_known(definition: Any, low: float, high: float) -> None:
    x = argument("x")
    bounds = interval(definition(x), {"x": Interval.between(np.float32([low]), np.float32([high]))})
    assert bounds.nan[0]


@pytest.mark.parametrize("name", ["hard", "rounded", "quotient", "called"])
def test_every_operation_has_faults_that_change_values(name: str) -> None:
    x = argument("x")
    root = {
        "hard": smaller(larger(x * np.float32(1 / 6) + 0.5, 0), 1),
        "rounded": round_half_even(x * 3.5),
        "quotient": (x - 1) / (2 + abs(x)),
        "called": 1 - functions.exponential(-x),
    }[name]
    samples = np.random.default_rng(1).choice(np.float32([-9, -3, -1, -0.6, 0, 0.2, 1, 3, 5, 2 / 7]), 4000)
    right = Evaluation(root)({"x": samples})
    wrong = {cause: Evaluation(mutant)({"x": samples}) for cause, mutant in mutations.mutants(root)}
    operations = {place.operation for place in ordered(root)} - {"literal"}
    assert len(wrong) >= len(operations)
    different = [cause for cause, output in wrong.items() if output.tobytes() != right.tobytes()]
    assert len(different) >= 0.7 * len(wrong), set(wrong) - set(different)


def test_the_page_lists_every_operation_of_the_language() -> None:
    text = (ROOT / "docs" / "reference" / "definitions.md").read_text()
    for word in ("square_root", "floor", "ceiling", "truncate", "round_half_even", "is_nan", "from_bits", "select",
                 "integer", "number", "code", "fused"):  # fmt: skip
        assert f"{word}(" in text or f'"{word}"' in text
