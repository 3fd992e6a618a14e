"""Operators of several operands that state their definition alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.operators.exact.expression import Expression
from harness.operators.exact.functions import logistic
from harness.operators.fold import Joint
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, Tensor
from tests.support.codes import node


@dataclass(frozen=True, eq=False)
class Ratio(Joint):
    ONNX = (("example", "Ratio"),)

    @staticmethod
    def value(a: Expression, b: Expression) -> Expression:
        return a / b


@dataclass(frozen=True, eq=False)
class GatedSum(Joint):
    ONNX = (("example", "GatedSum"),)

    @staticmethod
    def value(a: Expression, b: Expression, c: Expression) -> Expression:
        return a * c + b * logistic(b)


def read(operator: type[Joint], bound: float = math.inf, **constants: float) -> Joint:
    """Return the layer whose operands are activations (2, 3) within a bound, or constants."""
    tensors = {name: Tensor(name, (2, 3), FLOAT32, bound, True) for name in operator.names if name not in constants}
    proto = node(operator.__name__, *operator.names)
    values = {name: np.float32([value]) for name, value in constants.items()}
    layer = operator.read(Node("test", proto, "joint", values, tensors))
    assert isinstance(layer, Joint)
    return layer


def test_values_are_those_of_the_definition() -> None:
    a, b = np.random.default_rng(1).normal(size=(2, 50, 6)).astype(np.float32)
    layer = read(GatedSum, c=-0.5)
    np.testing.assert_allclose(layer.prepare()(a, b), a * -0.5 + b / (1 + np.exp(-b)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(layer.in_integers([a, b]), layer.prepare()(a, b))


def test_only_a_definition_with_calls_has_a_tolerance() -> None:
    a, b, c = np.random.default_rng(2).normal(size=(3, 50, 6)).astype(np.float32)
    layer = read(GatedSum)
    tolerance = layer.tolerance([a, b, c], layer.prepare()(a, b, c))
    assert tolerance is not None
    assert (tolerance > 0).all()
    assert (tolerance < 1e-5).all()
    exact = read(Ratio, b=3)
    assert (exact.errors.has_tolerance, exact.tolerance([a], exact.prepare()(a))) == (False, None)


def test_a_layer_that_can_give_nan_of_finite_numbers_is_refused() -> None:
    with pytest.raises(RequestError, match="its result can be NaN for values of 'a' within 2, 'b' within 2"):
        read(Ratio, bound=2)
    assert read(Ratio, bound=2, b=-4).output.bound == 0.5
    assert read(GatedSum).output.bound == math.inf


def test_attributes_and_other_numbers_of_operands_are_refused() -> None:
    with pytest.raises(RequestError, match="has 2 inputs"):
        GatedSum.read(Node("test", node("GatedSum", "a", "b"), "joint", {}, {}))


def test_faults_are_mutants_of_the_definition() -> None:
    a, b, c = np.random.default_rng(3).normal(size=(3, 50, 6)).astype(np.float32)
    causes = [model.cause for model in read(GatedSum).fault_models(a, b, c)]
    assert len(causes) == len(set(causes)) > 10
    assert "the result is truncated toward zero" in causes
