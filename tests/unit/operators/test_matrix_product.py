"""MatMul of two activations against ONNX Runtime and ONNX's reference evaluator, its order, faults and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.float_errors import Perturbed
from harness.operators.matrix_product import MatrixProduct
from harness.operators.tensor import INT64
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, node
from tests.support.floats import assert_within, read_node

PRODUCT = node("MatMul", "x", "other")


def drawn(rng: np.random.Generator, *shape: int) -> Array:
    return np.ldexp(rng.normal(size=shape), rng.integers(-8, 8, shape)).astype(np.float32)


def of_random_shape(rng: np.random.Generator) -> None:
    rows, columns, depth = rng.integers(1, 8, 3).tolist()
    outer = rng.integers(1, 4, int(rng.integers(0, 3))).tolist()
    first, second = ([int(rng.choice([1, size])) if rng.random() < 0.3 else size for size in outer] for _ in range(2))
    a, b = drawn(rng, 5, *first, rows, depth), drawn(rng, 5, *second, depth, columns)
    bound = float(max(np.abs(a).max(), np.abs(b).max()))
    if rng.random() < 0.3:
        constant = a[0] if rng.random() < 0.5 else a[0].reshape(-1, rows, depth)[0]
        layer = assert_within(PRODUCT, {"x": constant}, {"other": b}, bound=bound)
    else:
        layer = assert_within(PRODUCT, {}, {"x": a, "other": b}, bound=bound)
    assert isinstance(layer, MatrixProduct)


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_products_agree(count: int) -> None:
    assert_agree_at_random(of_random_shape, count)


def test_products_are_added_from_the_first_one_on() -> None:
    rng = np.random.default_rng(0)
    a, b = drawn(rng, 4, 2, 3, 9), drawn(rng, 4, 1, 9, 5)
    layer = layer_of(PRODUCT, {}, {"x": a, "other": b})
    right = np.zeros((4, 2, 3, 5), np.float32)
    for k in range(9):
        right = right + a[..., k, None] * b[..., k, None, :]
    assert layer.prepare()(a.reshape(4, -1), b.reshape(4, -1)).tobytes() == right.tobytes()


def test_every_fault_model_changes_some_values() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 3, 5)).astype(np.float32), rng.normal(size=(20, 5, 4)).astype(np.float32)
    layer = layer_of(PRODUCT, {}, {"x": a, "other": b})
    flat = a.reshape(20, -1), b.reshape(20, -1)
    right, causes = layer.prepare()(*flat), []
    for model in layer.fault_models(*flat):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes))
    assert {"factor A is read by columns", "factor B is read by columns"} <= set(causes)
    assert any("last values along k" in cause for cause in causes)


def test_results_for_inputs_with_errors_are_within_the_distance() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(40, 12)).astype(np.float32), rng.normal(size=(40, 8)).astype(np.float32)
    layer = layer_of(PRODUCT, {}, {"x": a.reshape(40, 3, 4), "other": b.reshape(40, 4, 2)})
    errors, output = [np.full(a.shape, 1e-3), np.full(b.shape, 2e-3)], layer.prepare()(a, b)
    bound = layer.errors.propagated(Perturbed([a, b], errors, output))
    for sign in (1, -1):
        other = [(a + sign * 1e-3).astype(np.float32), (b + rng.uniform(-2e-3, 2e-3, b.shape)).astype(np.float32)]
        assert (np.abs(layer.prepare()(*other).astype(np.float64) - output) <= bound).all()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": (2, 3), "other": (2, 3)}, "two factors of the same number of axes"),
        ({"x": (2, 3, 4), "other": (2, 5, 4, 2)}, "two factors of the same number of axes"),
        ({"x": (2, 3, 4), "other": (2, 3, 4)}, "a has 4 columns, b 3 rows"),
        ({"x": (2, 2, 3, 4), "other": (2, 3, 4, 5)}, "the axes before the matrices, (2,) and (3,), differ"),
    ],
)
def test_refusal_names_the_shapes(inputs: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_node(PRODUCT, {}, {name: np.ones(shape, np.float32) for name, shape in inputs.items()})
    assert message in f"{caught.value}; {caught.value.hint}"


def test_integers_are_refused() -> None:
    with pytest.raises(RequestError, match="'other' is int64"):
        read_node(PRODUCT, {}, {"x": np.ones((2, 3, 3), np.float32), "other": np.ones((2, 3, 3), INT64)})
