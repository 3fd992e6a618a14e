"""Facts from definitions of several values: linear changes, bounds, wrong constants, names of faults."""

from __future__ import annotations

import numpy as np
import pytest

from harness.operators.base import Layer
from harness.operators.batch_normalization import BatchNormalization
from harness.operators.exact.errors import Inexact, inexact, linear
from harness.operators.exact.expression import DefinitionError, argument, larger, select
from harness.operators.exact.integers import IntegerEvaluation
from harness.operators.exact.modular import modular
from harness.operators.mul import Mul
from harness.operators.tensor import INT8
from tests.support.codes import node
from tests.support.floats import read_node

X = np.random.default_rng(0).normal(0, 1, (20, 3, 4)).astype(np.float32)
CHANNELS = np.float32([0.5, -2, 3]).reshape(3, 1)


def test_a_linear_definition_passes_changes_on_with_their_signs() -> None:
    constants = {"mean": 7.0, "deviation": 4.0, "scale": -2.0, "offset": 3.0}
    change = linear(BatchNormalization.defined(), {"x": np.float64([1, -6])}, constants)
    assert change is not None
    assert change.tolist() == [-0.5, 3]
    product = Mul.defined()
    assert linear(product, {"A": np.ones(1)}, {"B": np.float64([-3])}) == -3
    assert linear(product, {"A": np.ones(1), "B": np.ones(1)}, {}) is None
    x = argument("x")
    assert linear(3 / x, {"x": np.ones(1)}, {}) is None
    assert linear(select(x < 0, 0, x), {"x": np.ones(1)}, {}) is None


def test_a_change_without_roundings_is_that_of_real_numbers() -> None:
    arguments = {name: Inexact(np.float32([3]), np.float64([error])) for name, error in (("A", 0.25), ("B", 0.5))}
    exact, rounded = (inexact(Mul.defined(), arguments, is_rounded=is_rounded).error for is_rounded in (False, True))
    assert exact == 3 * 0.25 + 3 * 0.5 + 0.125
    assert exact < rounded < exact + 1e-5
    large = {"A": Inexact(np.float32([3e38]), np.float64([1e38])), "B": Inexact(np.float32([1]), np.zeros(1))}
    assert inexact(Mul.defined(), large).error == np.inf  # another result can be infinite


def test_bounds_know_squares_and_zeros() -> None:
    square = read_node(node("Mul", "x", "x"), {}, {"x": X}, bound=3.0)
    assert (square.output.bound, square.output.negative_zero) == (9, False)
    low, high = square.errors.output_bounds(
        [np.full((1, 12), -2, np.float32)] * 2, [np.full((1, 12), 3, np.float32)] * 2
    )
    assert (low.min(), high.max()) == (0, 9)
    assert read_node(node("Mul", "x", "c"), {"c": CHANNELS}, {"x": X}, bound=3.0).output.negative_zero
    assert read_node(node("Sum", "x", "c"), {"c": CHANNELS}, {"x": X}, bound=3.0).output.bound == 6


def test_wrong_constants_are_those_of_other_bytes_and_places() -> None:
    layer = read_node(node("Add", "x", "c"), {"c": CHANNELS}, {"x": X})
    outputs = {model.cause: model.output for model in layer.fault_models(X.reshape(20, -1))}
    assert outputs["the first value of B is taken for all"].tobytes() == (X + CHANNELS[0]).tobytes()
    assert outputs["the values of B are in the opposite order"].tobytes() == (X + CHANNELS[::-1]).tobytes()
    assert outputs["the bytes of B are in the other order"].tobytes() == (X + CHANNELS.byteswap()).tobytes()


@pytest.mark.slow
def test_the_names_of_faults_do_not_grow_with_the_operands() -> None:
    names = [f"x{number}" for number in range(64)]
    layer = read_node(node("Max", *names), {}, dict.fromkeys(names, X))
    causes = [model.cause for model in layer.fault_models(*[X.reshape(20, -1)] * 64)]
    assert max(map(len, causes)) < 80
    assert "the condition operand_64 > y_63 includes equality" in causes


def test_codes_are_compared_selected_and_added_modulo_256() -> None:
    x = argument("x", INT8)
    codes = np.arange(-128, 128, dtype=np.int8)
    assert IntegerEvaluation(larger(x, 3))({"x": codes}).tobytes() == np.maximum(codes, 3).tobytes()
    assert IntegerEvaluation(modular(x + 1))({"x": codes}).tobytes() == (codes + np.int8(1)).tobytes()
    with pytest.raises(DefinitionError, match="shift_left of int8"):
        x << 1


def test_a_layer_has_at_most_30_members() -> None:
    members = {*vars(Layer), *vars(Layer)["__annotations__"]}
    assert len([name for name in members if not name.startswith("_")]) <= 30
