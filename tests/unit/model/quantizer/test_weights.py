from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.quantizer import Term, WeightKind, column_scales, expand
from tests.support.examples import examples

KINDS = get_args(WeightKind)
kinds = st.sampled_from(KINDS)


def without_bias(weight: np.ndarray, kind: WeightKind, order: int = 1) -> tuple[Term, ...]:
    return expand(weight, np.zeros(weight.shape[1]), kind, order)


def errors(weight: np.ndarray, terms: tuple[Term, ...]) -> list[float]:
    """The greatest error of the first term, of the first two, and so on."""
    sums = np.cumsum([term.values() for term in terms], axis=0)
    return [float(np.abs(weight.astype(np.float64) - total).max()) for total in sums]


@examples(60)
@given(st.integers(0, 2**32), kinds, st.integers(1, 9), st.integers(1, 9), st.floats(-20, 20))
def test_the_greatest_error_falls_exponentially_with_the_order(
    seed: int, kind: WeightKind, inputs: int, outputs: int, magnitude: float
) -> None:
    weight = (np.random.default_rng(seed).normal(size=(inputs, outputs)) * 2.0**magnitude).astype(np.float32)
    terms = without_bias(weight, kind, 5)
    found = errors(weight, terms)
    assert found[0] <= terms[0].scale.max() / 2 * 1.001
    steps = 255 if kind == "uint8" else 254
    greatest = np.abs(weight).max() * (2 if kind == "uint8" else 1)
    for order, error in enumerate(found, start=1):
        # The residuals are kept in float64, whose own steps are all that is left in the end.
        assert error <= greatest * (1.01 / steps) ** order + greatest * 1e-15


def test_residual_terms_quantise_what_the_terms_before_left() -> None:
    weight = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    first, second = without_bias(weight, "int8", 2)
    rest = weight.astype(np.float64) - first.values()
    assert second.scale == pytest.approx(np.abs(rest).max() / 127)
    assert np.array_equal(second.weight, np.rint(rest / second.scale))


def test_int8_by_column_is_symmetric_and_every_column_reaches_127() -> None:
    weight = np.random.default_rng(2).normal(size=(50, 7)).astype(np.float32) * np.logspace(-3, 3, 7, dtype=np.float32)
    (term,) = without_bias(weight, "int8-per-column")
    assert term.weight.dtype == term.zero_point.dtype == np.int8
    assert term.scale.dtype == np.float32
    assert term.scale.shape == term.zero_point.shape == (7,)
    assert np.abs(term.weight).max(axis=0).tolist() == [127] * 7
    assert not term.zero_point.any()
    assert np.array_equal(term.scale, column_scales(weight))


def test_int8_has_one_scale_for_the_tensor() -> None:
    (term,) = without_bias(np.array([[1.0, -2.54], [0.02, 0.0]], np.float32), "int8")
    assert (term.scale.shape, term.zero_point.shape) == ((), ())
    assert term.scale == pytest.approx(0.02)
    assert term.weight.tolist() == [[50, -127], [1, 0]]


@pytest.mark.parametrize("values", [[-1.0, 4.1], [3.0, 5.1], [-5.1, -2.0], [0.0, 2.0]])
def test_uint8_spans_weights_and_zero(values: list[float]) -> None:
    weight = np.array([[*values, 0.0]], np.float32)
    (term,) = without_bias(weight, "uint8")
    assert term.weight.dtype == term.zero_point.dtype == np.uint8
    assert term.weight[0, 2] == term.zero_point
    assert {0, 255} <= {*term.weight[0].tolist(), int(term.zero_point)}
    assert np.abs(term.values() - weight).max() <= term.scale / 2 * 1.001


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_stay_zeros_at_a_harmless_scale(kind: WeightKind) -> None:
    for term in without_bias(np.zeros((3, 2), np.float32), kind, 2):
        assert not term.values().any()
        assert (term.scale > 1e-3).all()
        assert (term.scale <= 1).all()


def test_column_without_weights_takes_the_scale_of_the_greatest() -> None:
    weight = np.array([[0.0, 1e-40, 1.27, 1e-3]], np.float32)
    assert column_scales(weight) == pytest.approx([0.01, 0.01, 0.01, 1e-3 / 127])
    assert column_scales(np.full((1, 2), 1e-40, np.float32)) == pytest.approx([1 / 127, 1 / 127])


@pytest.mark.parametrize("kind", KINDS)
def test_bias_that_would_leave_int32_widens_the_first_scale_alone(kind: WeightKind) -> None:
    weight = np.array([[1e-4, 1.0], [-1e-4, 0.5]], np.float32)
    reach = np.array([2.0**33, 0.0])
    first, second = expand(weight, reach, kind, 2)
    widened = np.broadcast_to(first.scale, 2)
    assert widened[0] == 8
    assert widened[1] == (8 if kind != "int8-per-column" else column_scales(weight)[1])
    assert errors(weight, (first, second))[1] <= 1 / 254 * 1.001
    assert second.scale.max() <= 1 / 127


@pytest.mark.parametrize("kind", KINDS)
def test_bias_without_weights_keeps_twenty_bits(kind: WeightKind) -> None:
    (term,) = expand(np.zeros((2, 1), np.float32), np.array([3.0]), kind, 1)
    assert 3.0 / term.scale == pytest.approx(2**20)
    assert not term.values().any()
