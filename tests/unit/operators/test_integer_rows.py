"""Reductions and CumSum of integers against Python's integers, ONNX Runtime and the evaluation in integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.integer_samples import special_integers
from harness.operators.reduce import LONG, OF_INTEGERS
from harness.operators.tensor import integer_limits
from tests.support.codes import node, runtime
from tests.support.floats import read_node
from tests.unit.operators.test_integer_elements import wrapped

Type = np.dtype[Any]
OF_PYTHON: Mapping[str, Callable[[Sequence[int]], int]] = {
    "ReduceSum": sum,
    "ReduceProd": math.prod,
    "ReduceSumSquare": lambda values: sum(value * value for value in values),
    "ReduceMax": max,
    "ReduceMin": min,
}
CASES = [(name, kind) for name, kinds in OF_INTEGERS.items() for kind in kinds]
IN_RUNTIME = {
    **dict.fromkeys(("ReduceSum", "ReduceProd", "CumSum"), ("int32", "int64")), "ReduceSumSquare": ("int32",),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), ("int8", "uint8", "int32", "int64")),
}  # fmt: skip
"""Types for which ONNX Runtime 1.31 has the operator."""


def values(dtype: Type, *shape: int) -> Array:
    rng = np.random.default_rng(0)
    random = rng.integers(*integer_limits(dtype), shape, dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.5, random, rng.choice(special_integers(dtype), shape))


def assert_specified(layer: Layer, result: Array, x: Array) -> None:
    integers = layer.in_integers([x.reshape(len(x), -1)])
    assert integers is not None
    assert integers.tobytes() == result.tobytes()
    causes = []
    for model in layer.fault_models(x.reshape(len(x), -1)):
        assert (model.output.shape, model.output.dtype) == (result.shape, result.dtype)
        assert model.output.tobytes() != result.tobytes(), model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) > 1


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_reduction_is_that_of_python_modulo_2_to_the_n(name: str, dtype: Type) -> None:
    x, axes = values(dtype, 40, 3, 4), {"axes": np.array([2])}
    proto = node(name, "x", "axes")
    layer = read_node(proto, axes, {"x": x})
    result = layer.prepare()(x.reshape(40, -1))
    assert result.dtype == dtype
    rows = x.reshape(-1, 4).tolist()
    assert result.reshape(-1).tolist() == [wrapped(OF_PYTHON[name](row), dtype) for row in rows]
    assert_specified(layer, result, x)
    if dtype.name in IN_RUNTIME[name]:
        x = np.where(np.arange(len(x))[:, None, None] % 2, x, x % 100).astype(dtype)
        result, right = layer.prepare()(x.reshape(40, -1)), runtime(proto, axes, {"x": x}).reshape(40, -1)
        tolerance = layer.tolerance([x.reshape(40, -1)], result)
        is_exact = np.full(result.shape, True) if tolerance is None else tolerance == 0
        assert is_exact.sum() > 30
        assert np.array_equal(right[is_exact], result[is_exact])


@pytest.mark.parametrize("dtype", LONG)
@pytest.mark.parametrize(("exclusive", "reverse"), list(itertools.product([0, 1], [0, 1])))
def test_sums_so_far_are_those_of_python_modulo_2_to_the_n(dtype: Type, exclusive: int, reverse: int) -> None:
    x = values(dtype, 40, 5)
    proto = node("CumSum", "x", "axis", exclusive=exclusive, reverse=reverse)
    layer = read_node(proto, {"axis": np.array(1)}, {"x": x})
    result = layer.prepare()(x)
    step = -1 if reverse else 1
    for row, sums in zip(x[:, ::step].tolist(), result[:, ::step].tolist(), strict=True):
        totals = [0, *itertools.accumulate(row)][1 - exclusive : 6 - exclusive]
        assert sums == [wrapped(total, dtype) for total in totals]
    assert_specified(layer, result, x)
    if dtype.name in IN_RUNTIME["CumSum"]:
        assert runtime(proto, {"axis": np.array(1)}, {"x": x}).tobytes() == result.tobytes()


def test_bounds_of_a_largest_integer_are_those_of_its_values() -> None:
    x = np.int32([[3, -1, 7, 2], [5, 0, 9, 4]])
    layer = read_node(node("ReduceMax", "x", "axes"), {"axes": np.array([1])}, {"x": x})
    assert [end.item() for end in layer.errors.output_bounds([x[:1]], [x[1:]])] == [7, 9]
