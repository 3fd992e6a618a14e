"""The mistakes of operators other than QGemm and QuantizeLinear, made by hand or in exact arithmetic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.clip import Clip
from harness.operators.concat import Concat
from harness.operators.contracted import CONTRACTED
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.exact.evaluation import numpy_function
from harness.operators.exact.functions import exponential
from harness.operators.leaky_relu import LeakyRelu
from harness.operators.mul import Mul
from harness.operators.order import Order, numbered
from harness.operators.relu import Relu
from harness.operators.sub import Sub
from harness.operators.tensor import FLOAT32, INT8, INT64, UINT8, Tensor
from harness.operators.terms import BinaryLayer
from tests.support.codes import every_operator
from tests.support.diagnosis.layers import causes, found
from tests.support.functions import CONTRACTING, compiled, every_function


def total(*, addend: Array | None = None) -> Add:
    """A sum of four columns."""
    tensors = tuple(Tensor(name, (4,), FLOAT32) for name in ("ab" if addend is None else "a"))
    return Add("sum", "sum", "Add", tensors, Tensor("y", (4,), FLOAT32), addend)


def terms(count: int = 500) -> tuple[Array, Array]:
    """Two terms of like size, whose sums are rounded more often than not."""
    a, b = np.random.default_rng(6).normal(0, 1, (2, count, 4)).astype(np.float32)
    return a, b / np.float32(7)


def truncated(value: Fraction) -> np.float32:
    """The float32 next to the value, or on it, on the side of zero."""
    nearest = np.float32(float(value))  # the double is exact: terms of like size
    return np.nextafter(nearest, np.float32(0)) if abs(Fraction(float(nearest))) > abs(value) else nearest


def test_wrong_additions_are_named() -> None:
    layer, (a, b) = total(), terms()
    exact = [Fraction(float(x)) + Fraction(float(y)) for x, y in zip(a.flat, b.flat, strict=True)]
    rounded_down = np.array([truncated(value) for value in exact]).reshape(a.shape)
    assert causes(found(layer, (a, b), b)) == ["A is left out of A + B"]
    assert causes(found(layer, (a, b), a)) == ["B is left out of A + B"]
    assert causes(found(layer, (a, b), a - b)) == ["the sign of B is changed", "B is subtracted in A + B"]
    assert causes(found(layer, (a, b), rounded_down)) == ["the result is truncated toward zero"]
    assert causes(found(layer, (a, b), (a + b).astype(np.float16).astype(np.float32))) == [
        "the result is rounded to float16"
    ]


def test_wrong_additions_of_a_constant_are_named() -> None:
    a, _ = terms()
    addend = np.array([0.5, -0.25, 3, 1e-3], np.float32)
    assert causes(found(total(addend=addend), a, a)) == ["B is left out of A + B"]
    swapped = np.frombuffer(addend.astype(">f4").tobytes(), "<f4")
    assert causes(found(total(addend=addend), a, a + swapped)) == ["the bytes of B are in the other order"]


def test_subnormal_sums_that_are_flushed_to_zero_are_named() -> None:
    a, b = (np.float32([[1.5e-38, 1.1, -1.2e-38, 2.0]]), np.float32([[-1.2e-38, 1.1, 1.5e-38, -2.0]]))
    assert causes(found(total(), (a, b), np.float32([[0, 2.2, 0, 0]]))) == ["a subnormal result is flushed to zero"]


def test_terms_that_were_not_rounded_before_are_not_explained_wrongly() -> None:
    """As by a fused multiply-add: the unrounded product is not among what the layer was fed."""
    a, b = terms()
    fused = (a.astype(np.float64) + b.astype(np.float64) * (1 + 2.0**-26)).astype(np.float32)
    diagnosis = found(total(), (a, b), fused)
    assert diagnosis.differing < a.size
    assert causes(diagnosis) == []


def binary(kind: type[BinaryLayer], *constants: Array | None) -> BinaryLayer:
    """An operation on four columns; a constant takes the place of an activation."""
    tensors = tuple(Tensor(name, (4,), FLOAT32) for name in ("a" if any(c is not None for c in constants) else "ab"))
    return kind("y", "y", kind.__name__, tensors, Tensor("y", (4,), FLOAT32), *constants)


def test_wrong_subtractions_are_named() -> None:
    layer, (a, b) = binary(Sub, None, None), terms()
    assert causes(found(layer, (a, b), -b)) == ["A is left out of A - B"]
    assert causes(found(layer, (a, b), a)) == ["B is left out of A - B"]
    assert causes(found(layer, (a, b), b - a)) == ["the terms of A - B are exchanged"]
    assert causes(found(layer, (a, b), a + b)) == ["the sign of B is changed", "B is added in A - B"]
    minuend = np.array([0.5, -0.25, 3, 1e-3], np.float32)
    swapped = np.frombuffer(minuend.astype(">f4").tobytes(), "<f4")
    assert causes(found(binary(Sub, minuend, None), a, swapped - a)) == ["the bytes of A are in the other order"]


def test_wrong_multiplications_are_named() -> None:
    layer, (a, b) = binary(Mul, None), terms()
    exact = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a.flat, b.flat, strict=True)]
    rounded_down = np.array([truncated(value) for value in exact]).reshape(a.shape)
    assert causes(found(layer, (a, b), b)) == ["A is left out of A * B"]
    assert causes(found(layer, (a, b), a)) == ["B is left out of A * B"]
    assert causes(found(layer, (a, b), rounded_down)) == ["the result is truncated toward zero"]
    small = np.float32([[1e-20, 1.1, -1e-20, 2.0]])
    assert causes(found(layer, (small, small), np.float32([[0, 1.21, 0, 4]]))) == [
        "a subnormal result is flushed to zero"
    ]


def unary(layer: type[Relu | LeakyRelu | Clip], *bounds: np.float32) -> Relu | LeakyRelu | Clip:
    [x, y] = (Tensor(name, (4,), FLOAT32) for name in "xy")
    return layer("y", "y", layer.__name__, (x,), y, *bounds)


KEPT = "alpha is left out of alpha * x; the condition x < 0.0 is taken as false"


@pytest.mark.parametrize(
    ("layer", "cause", "wrong"),
    [
        (unary(Relu), "negative numbers are kept", lambda x: x),
        (unary(Relu), "the absolute value is taken", np.abs),
        (unary(Relu), "positive numbers become 0", lambda x: np.where(x > 0, 0, x)),
        (unary(Relu), "-0 becomes 0", lambda x: np.where(x > 0, x, 0)),
        (unary(Relu), "negative numbers become -0", lambda x: np.where(x < 0, -0.0, x)),
        (unary(LeakyRelu, np.float32(0.3)), KEPT, lambda x: x),
        (unary(LeakyRelu, np.float32(0.3)), "negative numbers become 0", lambda x: np.where(x < 0, 0, x)),
        (unary(LeakyRelu, np.float32(0.3)), "the condition x < 0.0 is taken as true", lambda x: np.float32(0.3) * x),
        (unary(LeakyRelu, np.float32(0.3)), "alpha is the default", lambda x: np.where(x < 0, np.float32(0.01) * x, x)),
        (unary(Clip, np.float32(-0.5), np.float32(0.75)), "the lower bound is left out", lambda x: np.minimum(x, 0.75)),
        (unary(Clip, np.float32(-0.5), np.float32(0.75)), "the upper bound is left out", lambda x: np.maximum(x, -0.5)),
        (unary(Clip, np.float32(-0.5), np.float32(0.75)), "both bounds are left out", lambda x: x),
        (unary(Clip, np.float32(-0.5), np.float32(0.75)), "the lower bound is 0", lambda x: np.clip(x, 0, 0.75)),
    ],
)
def test_wrong_comparisons_are_named(layer: Layer, cause: str, wrong: Callable[[Array], Array]) -> None:
    x = np.concatenate([terms()[0], np.float32([[0, -0.0, 1, -1]])])
    assert "; ".join(causes(found(layer, x, np.asarray(wrong(x), np.float32)))) == cause


def test_inputs_in_another_order_are_named() -> None:
    tensors = tuple(Tensor(name, (4,), FLOAT32) for name in "abc")
    layer = Concat("y", "y", "Concat", tensors, Tensor("y", (12,), FLOAT32), Order(numbered([12]), numbered([1, 12])))
    (a, b), c = terms(), terms()[0] + 1
    opposite, rotated = (np.concatenate(order, axis=1) for order in ([c, b, a], [b, c, a]))
    assert causes(found(layer, (a, b, c), opposite))[0] == "the inputs are in the opposite order"
    assert causes(found(layer, (a, b, c), rotated))[0] == "the inputs begin with number 2"


def dequantize(zero_point: int = 101) -> DequantizeLinear:
    q, y = Tensor("q", (4,), UINT8), Tensor("y", (4,), FLOAT32)
    return DequantizeLinear("dq", "dq", "DequantizeLinear", (q,), y, np.float32(0.0236721), zero_point)


@pytest.mark.parametrize(
    ("cause", "wrong"),
    [
        ("the zero point is left out", lambda q, s: q * s),
        ("the zero point is 128", lambda q, s: (q - 128) * s),
        ("the zero point is subtracted after the scaling", lambda q, s: q * s - np.float32(101) * s),
        ("division by 1 / scale instead of multiplication", lambda q, s: (q - 101) / (1 / s)),
        ("the scale is a float16", lambda q, s: (q - 101) * np.float32(np.float16(s))),
        ("the output is rounded to float16", lambda q, s: ((q - 101) * s).astype(np.float16).astype(np.float32)),
        ("the codes are read as int8", lambda q, s: (np.where(q > 127, q - 256, q) - 101) * s),
        ("the bytes of the output are in the other order", lambda q, s: ((q - 101) * s).byteswap()),
    ],
)
def test_wrong_dequantisations_are_named(cause: str, wrong: object) -> None:
    q = np.arange(256, dtype=np.uint8).reshape(-1, 4)
    layer = dequantize()
    actual = wrong(q.astype(np.float32), layer.scale)  # type: ignore[operator] # numbers of 8 bits: exact in float32
    assert causes(found(layer, q, actual)) == [cause]


def arg_extremum(dtype: np.dtype[np.generic], *, largest: bool, last: bool) -> ArgExtremum:
    x, y = Tensor("x", (5,), dtype), Tensor("y", (1,), INT64)
    return ArgExtremum("arg", "arg", "ArgMax", (x,), y, largest, last)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [UINT8, INT8, FLOAT32])
def test_wrong_searches_are_named(dtype: np.dtype[np.generic], *, largest: bool, last: bool) -> None:
    layer = arg_extremum(dtype, largest=largest, last=last)
    x = np.random.default_rng(3).integers(0, 3, (400, 5)).astype(dtype)

    def searched(**changed: bool) -> Array:
        return arg_extremum(dtype, **({"largest": largest, "last": last} | changed)).prepare()(x)

    right, wrong = ("last", "first") if last else ("first", "last")
    of_equals = found(layer, x, searched(last=not last))
    assert causes(of_equals) == [f"of equal values the {wrong} column wins"]
    assert of_equals.complete[0].right == f"of equal values the {right} column wins"
    extreme = "smallest" if largest else "largest"
    assert causes(found(layer, x, searched(largest=not largest))) == [f"the {extreme} value is searched"]
    assert causes(found(layer, x, searched() + 1)) == ["columns are counted from 1"]


def test_signs_that_are_misread_by_a_search_are_named() -> None:
    layer = arg_extremum(INT8, largest=True, last=False)
    x = np.random.default_rng(3).integers(-128, 128, (400, 5)).astype(np.int8)
    actual = x.view(np.uint8).argmax(axis=1, keepdims=True)
    assert causes(found(layer, x, actual)) == ["the codes are read as uint8"]


def of_codes(name: str) -> tuple[Layer, tuple[Array, ...]]:
    """A layer of a network of operators on codes, whose scales are powers of two, and random codes for it."""
    layer = next(layer for layer in every_operator("uint8", 4, (0.5, 0.25, 2)).layers if layer.name == name)
    inputs = np.random.default_rng(8).integers(0, 256, (len(layer.inputs), 3000, 4)).astype(np.uint8)
    return layer, tuple(inputs)


def nearest(v: Array) -> Array:
    return np.clip(np.rint(v), 0, 255).astype(np.uint8)


def test_wrong_sums_of_codes_are_named() -> None:
    layer, (a, b) = of_codes("sum")
    assert causes(found(layer, (a, b), nearest(terms_of_codes(a, b) - 100))) == ["the zero point of y is left out"]
    moved = nearest(terms_of_codes(a + 100.0, b))
    assert causes(found(layer, (a, b), moved)) == ["the zero point of a is left out"]
    assert causes(found(layer, (a, b), nearest(terms_of_codes(b, a)))) == ["the inputs are exchanged"]
    up = nearest(np.ceil(terms_of_codes(a, b)))
    assert causes(found(layer, (a, b), up)) == ["rounding is up (ceil)"]


def terms_of_codes(a: Array, b: Array) -> Array:
    """Return the exact sums, in codes."""
    return (a - 100.0) / 4 + (b - 141.0) / 8 + 100


def test_wrong_products_of_codes_are_named() -> None:
    layer, (a, b) = of_codes("product")
    assert causes(found(layer, (a, b), nearest(a * (b - 141.0) / 16 + 100))) == ["the zero point of a is left out"]
    unmoved = nearest((a - 100.0) * (b - 141.0) / 16)
    assert causes(found(layer, (a, b), unmoved)) == ["the zero point of y is left out"]
    late = np.clip(np.rint((a - 100.0) * (b - 141.0) / 16) + 101, 0, 255).astype(np.uint8)
    assert causes(found(layer, (a, b), late)) == []


def test_wrong_functions_of_one_code_are_named() -> None:
    layer, (x,) = of_codes("leaky")
    real = (x.astype(np.float32) - 100) / 2
    kept = nearest(real / np.float32(0.25) + 141)
    assert "negative numbers are kept" in causes(found(layer, x, kept))
    assert causes(found(layer, x, nearest(np.where(real < 0, 0, real) / 0.25 + 141))) == ["negative numbers become 0"]
    layer, (x,) = of_codes("sigmoid")
    assert causes(found(layer, x, nearest(np.tanh(real) / 0.25 + 141)))[0] == "the function is tanh"


EXP = numpy_function(exponential)


def exp_of(x: Array) -> Array:
    return np.exp(np.asarray(x, np.float64))


def function(operator: str) -> tuple[Layer, Array]:
    """A layer with a function of float32, and inputs that reach all of its parts."""
    layer = next(layer for layer in every_function(6).layers if layer.operator == operator)
    rng = np.random.default_rng(9)
    return layer, np.concatenate([rng.normal(0, 3, (2000, 6)), rng.uniform(-103, -80, (200, 6))]).astype(np.float32)


FLOAT = np.float32
ALPHA, BETA = FLOAT(0.3), FLOAT(0.4)
WRONG_FUNCTIONS: list[tuple[str, str, Callable[[Array], Array]]] = [
    ("Exp", "exponential(x) is the float32 nearest to it", exp_of),
    ("Exp", "the base is 2", lambda x: np.exp2(np.float64(x))),
    ("Tanh", "hyperbolic_tangent(x) is the float32 nearest to it", lambda x: np.tanh(np.float64(x))),
    ("Tanh", "numbers beyond 1 are kept: a hard tanh", lambda x: np.clip(x, -1, 1)),
    ("Sigmoid", "logistic(x) is the float32 nearest to it", lambda x: 1 / (1 + exp_of(-x))),
    ("Sigmoid", "the function is the hard sigmoid", lambda x: np.clip(x / FLOAT(6) + FLOAT(0.5), 0, 1)),
    ("Elu", "negative numbers are multiplied by alpha", lambda x: np.where(x < 0, ALPHA * x, x)),
    ("HardSigmoid", "beta is left out of x * alpha + beta", lambda x: np.clip(ALPHA * x, 0, 1)),
    ("HardSigmoid", "the condition v > 1.0 is taken as false", lambda x: np.maximum(ALPHA * x + BETA, 0)),
    (
        "HardSwish",
        "the condition w < 0.0 is taken as false",
        lambda x: x * np.minimum(x * FLOAT(1 / 6) + FLOAT(0.5), 1),
    ),
    (
        "HardSwish",
        "x is divided by 1 / 0.16666667 in x * 0.16666667",
        lambda x: x * np.clip(x / FLOAT(6) + FLOAT(0.5), 0, 1),
    ),
    ("Softmax", "in y: s[0] is left out of e[k, 0] / s[0]", lambda x: EXP(x - x.max(axis=1, keepdims=True))),
]


@pytest.mark.parametrize(("operator", "cause", "wrong"), WRONG_FUNCTIONS)
def test_wrong_functions_of_float32_are_named(operator: str, cause: str, wrong: Callable[[Array], Array]) -> None:
    layer, x = function(operator)
    with np.errstate(all="ignore"):
        assert causes(found(layer, x, np.asarray(wrong(x)).astype(FLOAT))) == [cause]


def test_other_orders_of_the_sum_of_softmax_are_named() -> None:
    layer, x = function("Softmax")
    e = EXP(x - x.max(axis=1, keepdims=True))
    columns = [e[:, n : n + 1] for n in range(6)]
    reversed_sum = functools.reduce(np.add, columns[::-1])
    tree = ((columns[0] + columns[1]) + (columns[2] + columns[3])) + (columns[4] + columns[5])
    total = functools.reduce(np.add, columns)
    assert causes(found(layer, x, e / reversed_sum)) == ["the terms are added from the last to the first"]
    assert causes(found(layer, x, e / tree)) == ["the terms are added pairwise, as a tree"]
    reciprocal = "in y: e[k, 0] is multiplied by 1 / s[0] in e[k, 0] / s[0]"
    assert causes(found(layer, x, e * (FLOAT(1) / total))) == [reciprocal]


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["Exp", "Tanh", "Sigmoid"])
def test_contracted_operations_of_a_compiler_are_named(operator: str, tmp_path: Path) -> None:
    """Name contraction in a program that gcc makes without -ffp-contract=off, for a processor with FMA."""
    layer, x = function(operator)
    name = {"Exp": "exponential", "Sigmoid": "logistic", "Tanh": "hyperbolic_tangent"}[operator]
    first, step = int(np.float32(-3).view(np.uint32)), 97
    x = (first + step * np.arange(30_000)).astype(np.uint32).view(FLOAT).reshape(-1, 6)
    program = compiled(CONTRACTING, tmp_path)
    actual = np.frombuffer(program(name, "values", first, x.size, step), FLOAT).reshape(x.shape)
    assert causes(found(layer, x, actual)) == [CONTRACTED]
