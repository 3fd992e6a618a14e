"""The evaluation in integers gives the bits of numpy's: each operation, and each definition of an operator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators import by_onnx_name
from harness.operators.elements import Elements
from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.expression import (
    INT8,
    Expression,
    argument,
    bits,
    ceiling,
    code,
    equal,
    floor,
    from_bits,
    fused,
    integer,
    number,
    ordered,
    round_half_even,
    select,
    square_root,
    unary,
)
from harness.operators.exact.integers import IntegerEvaluation, canonical
from harness.operators.fold import Fold
from harness.operators.integer_elements import IntegerElements
from harness.operators.logic import DEFINITIONS as LOGIC
from harness.operators.logic import Logic, definition_of
from harness.operators.pointwise import Pointwise

LARGEST = float(np.finfo(np.float32).max)


def finite(x: Expression) -> Expression:
    """A finite number, as a fused multiply-add takes."""
    return select(abs(x) <= LARGEST, x, 1)


OPERATIONS: dict[str, Callable[[Expression, Expression], Expression]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "equal": equal,
    "negate": lambda x, _: -x,
    "absolute": lambda x, _: abs(x),
    "square_root": lambda x, _: square_root(x),
    "floor": lambda x, _: floor(x),
    "ceiling": lambda x, _: ceiling(x),
    "truncate": lambda x, _: unary("truncate", x),
    "round_half_even": lambda x, _: round_half_even(x),
    "select": lambda x, y: select(x < y, x, y),
    "integers": lambda x, y: ((bits(x) * bits(y)) >> 3) - (bits(x) ^ bits(y)),
    "fused": lambda x, y: fused(finite(x), finite(y), finite(x + y)),
    "code": lambda x, _: number(integer(code(x, 3, INT8))),
    "shift_left": lambda x, y: from_bits((bits(x) << 2) + bits(y)),
}
DEFINITIONS = {
    name: kind for (domain, name), kind in by_onnx_name().items() if not domain and issubclass(kind, Pointwise)
}
SPECIAL = (0, 1, 0.5, 1.5, 2.5, 3.5, 0.49999997, 8388607.5, 16777216, 1e-45, 1e-38, LARGEST, np.inf, np.nan)


def numbers(count: int, seed: int) -> tuple[Array, Array]:
    """Return every pair of special numbers, of random bits, and of random numbers of near exponents."""
    random = np.random.default_rng(seed)
    special = np.array([*SPECIAL, *(-number for number in SPECIAL)], np.float32)
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1)
    of_bits = random.integers(0, 1 << 32, (2, count), dtype=np.uint32).view(np.float32)
    near = random.normal(size=(2, count)) * 10.0 ** random.integers(-3, 6, (2, count))
    first, second = np.concatenate([pairs, of_bits, near.astype(np.float32)], axis=1)
    return first, second


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_has_the_bits_of_ieee_754(operation: str) -> None:
    root = OPERATIONS[operation](argument("x"), argument("y"))
    x, y = numbers(200_000, 1)
    right = Evaluation(root)({"x": x, "y": y})
    np.testing.assert_array_equal(canonical(IntegerEvaluation(root)({"x": x, "y": y})), canonical(right))


OPERANDS = ("operand_1", "operand_2", "operand_3")
OF_SEVERAL = {
    **{name: kind.defined(OPERANDS if issubclass(kind, Fold) else kind.names)
       for (_, name), kind in by_onnx_name().items()
       if issubclass(kind, Elements) and not issubclass(kind, (Logic, IntegerElements))},
    **{f"{name} of {dtype}": definition_of(name, dtype) for dtype, own in LOGIC.items() for name in own},
}  # fmt: skip


@pytest.mark.parametrize("definition", OF_SEVERAL)
def test_a_definition_of_several_values_has_the_same_bits(definition: str) -> None:
    root = OF_SEVERAL[definition]
    arguments = {}
    for seed, node in enumerate(node for node in ordered(root) if node.operation == "argument"):
        values = numbers(20_000, seed)[seed % 2]
        arguments[node.name] = values if node.dtype == np.float32 else values > 0
    right = Evaluation(root)(arguments)
    np.testing.assert_array_equal(canonical(IntegerEvaluation(root)(arguments)), canonical(right))
    shaped = {name: values[None] for name, values in arguments.items()}
    assert Evaluation(root).broadcast(shaped, (1, len(right))).tobytes() == right.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("operator", DEFINITIONS)
def test_a_definition_has_the_same_bits(operator: str) -> None:
    kind = DEFINITIONS[operator]
    attributes = {name: np.float32(number) for name, number in kind.defaults.items()}
    x, _ = numbers(20_000, 2)
    right = Evaluation(kind.definition)({"x": x, **attributes})
    integers = IntegerEvaluation(kind.definition)({"x": x, **attributes})
    np.testing.assert_array_equal(canonical(integers), canonical(right))
