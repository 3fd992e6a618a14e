"""CumSum against ONNX Runtime and ONNX's reference evaluator, wrong variants, bounds, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.float_errors import Perturbed
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, node
from tests.support.floats import assert_within, read_node


def of_random_shape(rng: np.random.Generator) -> None:
    shape = rng.integers(1, 7, int(rng.integers(1, 4))).tolist()
    axis = int(rng.integers(1, 1 + len(shape)))
    axis = np.array(rng.choice([axis, axis - 1 - len(shape)]), rng.choice(["int32", "int64"]))
    flags = {name: int(rng.integers(2)) for name in ("exclusive", "reverse")}
    x = np.ldexp(rng.normal(size=(6, *shape)), rng.integers(-8, 8, (6, *shape))).astype(np.float32)
    bound = float(np.abs(x).max())
    layer = assert_within(node("CumSum", "x", "axis", **flags), {"axis": axis}, {"x": x}, bound=bound)
    assert layer is not None
    result = layer.prepare()(x.reshape(6, -1))
    assert (np.abs(result.astype(np.float64)) <= layer.output.bound).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations_agree(count: int) -> None:
    assert_agree_at_random(of_random_shape, count)


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_values_are_added_one_after_the_other(axis: int, reverse: int, exclusive: int) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5, 6)).astype(np.float32)
    flags = {"exclusive": exclusive, "reverse": reverse}
    layer = layer_of(node("CumSum", "x", "axis", **flags), {"axis": np.array(axis)}, {"x": x})
    ordered = np.flip(x, axis) if reverse else x
    sums = np.add.accumulate(ordered, axis=axis)
    if exclusive:
        zeros = np.zeros_like(sums.take([0], axis=axis))
        sums = np.concatenate([zeros, sums.take(range(x.shape[axis] - 1), axis=axis)], axis=axis)
    right = np.flip(sums, axis) if reverse else sums
    assert layer.prepare()(x.reshape(3, -1)).tobytes() == np.ascontiguousarray(right).tobytes()


@pytest.mark.parametrize("flags", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
def test_every_fault_model_changes_some_values(flags: dict[str, int]) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3, 5)).astype(np.float32)
    layer = layer_of(node("CumSum", "x", "axis", **flags), {"axis": np.array(2)}, {"x": x})
    right = layer.prepare()(x.reshape(40, -1))
    causes = []
    for model in layer.fault_models(x.reshape(40, -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        assert model.output.tobytes() != right.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) >= 5
    assert any(cause.startswith("in y: s[") for cause in causes)  # the place before or behind: exclusive


def test_results_for_inputs_with_errors_are_within_the_distance() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 15)).astype(np.float32)
    layer = layer_of(node("CumSum", "x", "axis"), {"axis": np.array(1)}, {"x": x})
    error, output = np.full(x.shape, 1e-3), layer.prepare()(x)
    bound = layer.errors.propagated(Perturbed([x], [error], output))
    for other in (x + rng.uniform(-1e-3, 1e-3, x.shape), x + 1e-3):
        changed = layer.prepare()(other.astype(np.float32))
        assert (np.abs(changed.astype(np.float64) - output) <= bound).all()
    assert (bound[:, -1] < 0.0151).all()


@pytest.mark.parametrize(
    ("constants", "attributes", "message"),
    [
        ({"axis": np.array(0)}, {}, "axis is 0; axes 1 to 2"),
        ({"axis": np.array(3)}, {}, "axis is 3"),
        ({"axis": np.array([1, 2])}, {}, "the axis has shape (2,)"),
        ({"axis": np.array(1)}, {"forward": 1}, "attribute 'forward' is unknown"),
        ({}, {}, "the axis, 'x', is not constant"),
    ],
)
def test_refusal_names_the_node_and_what_is_accepted(
    constants: dict[str, Array], attributes: dict[str, Any], message: str
) -> None:
    proto = node("CumSum", "x", *(constants or ["x"]), **attributes)
    with pytest.raises(RequestError) as caught:
        read_node(proto, constants, {"x": np.ones((2, 3, 5), np.float32)})
    assert message in f"{caught.value}; {caught.value.hint}"
