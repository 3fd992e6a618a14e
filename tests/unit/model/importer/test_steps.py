from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import RequestError
from harness.model.importer.steps import (
    Product,
    Relu,
    Scaling,
    Shift,
    Step,
    dense_layers,
    error_bound,
    evaluate,
    of_layers,
)
from tests.support.examples import examples

DOUBLE = np.dtype(np.float64)
SINGLE = np.dtype(np.float32)


def product(weight: list[list[float]], bias: list[float] | None = None) -> Product:
    values = np.array(weight, np.float64)
    return Product("product", values, np.zeros(values.shape[1]) if bias is None else np.array(bias, np.float64))


def random_steps(random: np.random.Generator, widths: list[int]) -> list[Step]:
    steps: list[Step] = []
    for inputs, outputs in itertools.pairwise(widths):
        weight = random.normal(size=(inputs, outputs)).astype(np.float32).astype(np.float64)
        steps += [Product("p", weight, random.normal(size=outputs).astype(np.float32).astype(np.float64)), Relu("r")]
    return steps[:-1]


def in_float32(steps: list[Step], vector: np.ndarray) -> np.ndarray:
    """Every operation rounded to float32, one after the other."""
    x = vector.astype(np.float32)
    for step in steps:
        if isinstance(step, Product):
            total = np.zeros(step.weight.shape[1], np.float32)
            for value, row in zip(x, step.weight.astype(np.float32), strict=True):
                total = total + value * row
            x = total + step.bias.astype(np.float32)
        elif isinstance(step, Scaling):
            x = x * step.factor.astype(np.float32)
        elif isinstance(step, Shift):
            x = x + step.offset.astype(np.float32)
        else:
            x = np.maximum(x, 0)
    return x


@examples(60)
@given(seed=st.integers(0, 2**32), widths=st.lists(st.integers(1, 9), min_size=2, max_size=5), large=st.booleans())
def test_the_bound_holds_and_is_near(seed: int, widths: list[int], large: bool) -> None:
    random = np.random.default_rng(seed)
    steps = [Shift("s", random.normal(size=widths[0])), Scaling("f", random.normal(size=widths[0]))]
    steps += random_steps(random, widths)
    vectors = (random.normal(size=(4, widths[0])) * (1000 if large else 1)).astype(np.float32).astype(np.float64)
    bound = error_bound(steps, vectors, SINGLE)
    computed = np.array([in_float32(steps, vector) for vector in vectors])
    assert (np.abs(computed - evaluate(steps, vectors)) <= bound).all()
    magnitude = np.abs(vectors) + np.abs(steps[0].offset)
    for step in steps[1:]:
        if isinstance(step, Product):
            magnitude = magnitude @ np.abs(step.weight) + np.abs(step.bias)
        elif isinstance(step, Scaling):
            magnitude = magnitude * np.abs(step.factor)
    assert (bound <= magnitude * len(steps) * 16 * 2.0**-24 + 1e-30).all()


def test_the_bound_of_one_product_is_its_formula() -> None:
    bound = error_bound([product([[3.0], [-5.0]], [7.0])], np.array([[2.0, 1.0]]), SINGLE)
    unit = Fraction(1, 2**24)
    expected = 6 * unit / (1 - 6 * unit) * (6 + 5 + 7) + 6 * Fraction(1, 2**149)
    assert bound[0, 0] == pytest.approx(float(expected), rel=1e-12)


def test_the_bound_follows_the_sign_of_relu() -> None:
    steps = [product([[1.0]]), Relu("r"), product([[1.0]])]
    positive, negative, either = (error_bound(steps, np.array([[x]]), SINGLE)[0, 0] for x in (1.0, -1.0, 1e-50))
    assert positive == pytest.approx(10 * 2.0**-24, rel=1e-5)
    assert negative < 1e-40
    assert 0 < either < 1e-40


def test_the_bound_of_half_precision_is_larger() -> None:
    steps = [product([[1.0]])]
    half = error_bound(steps, np.array([[1.0]]), np.dtype(np.float16))[0, 0]
    assert half == pytest.approx(5 * 2.0**-11 / (1 - 5 * 2.0**-11) + 5 * 2.0**-24, rel=1e-9)


def test_a_product_and_its_shift_stay_as_they_are() -> None:
    steps = [product([[0.1, 3.0]]), Shift("bias", np.array([7.0, -1.0])), Relu("r")]
    (layer,), folded = dense_layers(steps, 1, "n")
    assert layer.weight.tolist() == np.float32([[0.1, 3.0]]).tolist()
    assert layer.bias.tolist() == [7.0, -1.0]
    assert layer.relu
    assert folded == ()


def test_what_stands_before_a_product_is_folded_into_it_and_rounded_once() -> None:
    steps = [
        Shift("sub", np.array([-0.1, 3.0])),
        Scaling("div", np.array([1 / 3, 0.5])),
        product([[3.0], [0.7]], [1.0]),
    ]
    (layer,), folded = dense_layers(steps, 2, "n")
    assert layer.weight.tolist() == [[1.0], [float(np.float32(0.35))]]
    assert layer.bias[0] == np.float32(-0.1 / 3 * 3 + 1.5 * 0.7 + 1.0)
    assert folded == ("sub", "div")


def test_what_does_nothing_is_not_said_to_be_folded() -> None:
    steps = [Shift("sub", np.zeros(1)), Scaling("mul", np.ones(1)), product([[2.0]])]
    assert dense_layers(steps, 1, "n")[1] == ()


def test_products_without_relu_between_stay_two_layers() -> None:
    layers, folded = dense_layers([product([[2.0, 1.0]]), product([[1.0], [4.0]], [1.0])], 1, "n")
    assert [layer.weight.shape for layer in layers] == [(1, 2), (2, 1)]
    assert [layer.relu for layer in layers] == [False, False]
    assert folded == ()


def test_a_scaling_alone_becomes_a_diagonal_layer() -> None:
    steps = [product([[1.0, 2.0]]), Relu("r"), Scaling("mul", np.array([2.0, -3.0]))]
    layers, folded = dense_layers(steps, 1, "n")
    assert layers[1].weight.tolist() == [[2.0, 0.0], [0.0, -3.0]]
    assert folded == ("mul",)


def test_a_second_bias_is_folded_into_the_first() -> None:
    steps = [product([[1.0]], [2.0]), Shift("more", np.array([3.0]))]
    (layer,), folded = dense_layers(steps, 1, "n")
    assert layer.bias.tolist() == [5.0]
    assert folded == ("more",)


def test_relu_twice_is_relu_and_relu_first_is_a_layer() -> None:
    assert len(dense_layers([product([[1.0]]), Relu("r"), Relu("again")], 1, "n")[0]) == 1
    (layer,), _ = dense_layers([Relu("r")], 2, "n")
    assert layer.weight.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert layer.relu


def test_constants_beyond_float32_are_refused() -> None:
    with pytest.raises(RequestError, match=r"'big', 'product': a constant is beyond float32"):
        dense_layers([Scaling("big", np.array([1e30])), product([[1e30]])], 1, "n")


@examples(40)
@given(seed=st.integers(0, 2**32), width=st.integers(1, 6), order=st.lists(st.sampled_from("psfr"), max_size=9))
def test_layers_have_the_value_of_their_steps(seed: int, width: int, order: list[str]) -> None:
    random = np.random.default_rng(seed)
    make = {
        "p": lambda: Product("p", random.normal(size=(width, width)), random.normal(size=width)),
        "s": lambda: Shift("s", random.normal(size=width)),
        "f": lambda: Scaling("f", random.normal(size=width)),
        "r": lambda: Relu("r"),
    }
    steps = [make[kind]() for kind in order]
    layers, _ = dense_layers(steps, width, "n")
    vectors = random.normal(size=(5, width))
    bound = error_bound(steps, vectors, SINGLE) + error_bound(of_layers(layers), vectors, SINGLE)
    assert (np.abs(evaluate(of_layers(layers), vectors) - evaluate(steps, vectors)) <= bound).all()
