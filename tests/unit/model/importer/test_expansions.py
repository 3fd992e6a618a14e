"""Nodes that are written as nodes of other operators have the values that ONNX states."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import backend
from harness.core.arrays import Array

KINDS = ("int8", "int16", "int32", "int64", "uint16", "uint64")


def _shifted(x: int, places: int, kind: np.dtype[Any], *, left: bool) -> int:
    """Return a shift as the newest ONNX states it, of Python's integers, modulo 2^n."""
    bits = 8 * kind.itemsize
    if not 0 <= places < bits:
        places = 2 * bits
    return (x << places if left else x >> places) % (1 << bits)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("name", KINDS)
def test_a_shift_of_every_type_follows_the_newest_text_of_onnx(name: str, direction: str) -> None:
    """Signed numbers shift in copies of their sign; a negative or large number of places shifts all bits out."""
    kind = np.dtype(name)
    limits = np.iinfo(kind)
    ends = [limits.min, limits.max, 0, 1, limits.max // 3] + ([-1, -100] if limits.min else [])
    places = [0, 1, 7, 8, 8 * kind.itemsize - 1, 8 * kind.itemsize, limits.max] + ([-1] if limits.min else [])
    x, y = (part.reshape(-1) for part in np.meshgrid(np.array(ends, kind), np.array(places, kind)))
    number = helper.np_dtype_to_tensor_dtype(kind)
    values = [helper.make_tensor_value_info(tensor, number, x.shape) for tensor in "xyz"]
    node = helper.make_node("BitShift", ["x", "y"], ["z"], direction=direction)
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=13)
    [z] = backend.run_model(model, [x, y])
    expected = [_shifted(int(a), int(b), kind, left=direction == "LEFT") for a, b in zip(x, y, strict=True)]
    unsigned: Array = np.array(expected, f"u{kind.itemsize}")
    np.testing.assert_array_equal(z, unsigned.view(kind))


def _computed(operator: str, x: Array, number: int, result: int, **attributes: int) -> Array:
    values = [helper.make_tensor_value_info("x", number, x.shape), helper.make_tensor_value_info("y", result, x.shape)]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], **attributes)], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    [y] = backend.run_model(model, [x])
    return y


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -3.0]


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_infinities_and_nan_are_found_by_comparisons(kind: Any) -> None:
    """IsInf, of one sign or both, and IsNaN."""
    x = np.array([SPECIAL], kind)
    number = helper.np_dtype_to_tensor_dtype(x.dtype)
    wide, boolean = x.astype(np.float32), TensorProto.BOOL
    np.testing.assert_array_equal(_computed("IsNaN", x, number, boolean), np.isnan(wide))
    np.testing.assert_array_equal(_computed("IsInf", x, number, boolean), np.isinf(wide))
    np.testing.assert_array_equal(_computed("IsInf", x, number, boolean, detect_positive=0), np.isneginf(wide))
    np.testing.assert_array_equal(_computed("IsInf", x, number, boolean, detect_negative=0), np.isposinf(wide))


@pytest.mark.parametrize("operator", ["Relu", "Exp", "Softmax"])
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_a_function_of_halves_is_that_of_float32_rounded_once(operator: str, kind: Any) -> None:
    x = np.random.default_rng(0).normal(0, 2, (3, 5)).astype(kind)
    number = helper.np_dtype_to_tensor_dtype(x.dtype)
    single = _computed(operator, x.astype(np.float32), TensorProto.FLOAT, TensorProto.FLOAT)
    result = _computed(operator, x, number, number)
    assert result.dtype == x.dtype
    assert result.tobytes() == single.astype(kind).tobytes()


@pytest.mark.parametrize(("operator", "choose"), [("ReduceMax", np.any), ("ReduceMin", np.all)])
def test_the_greatest_and_the_least_of_bools_are_found_among_integers(operator: str, choose: Any) -> None:
    x = np.random.default_rng(0).integers(0, 2, (4, 3)).astype(np.bool_)
    values = [
        helper.make_tensor_value_info(name, TensorProto.BOOL, shape) for name, shape in (("x", (4, 3)), ("y", (4, 1)))
    ]
    axes = numpy_helper.from_array(np.array([1]), "axes")
    graph = helper.make_graph([helper.make_node(operator, ["x", "axes"], ["y"])], "g", values[:1], values[1:], [axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    [y] = backend.run_model(model, [x])
    np.testing.assert_array_equal(y, choose(x, 1, keepdims=True))


def test_a_reduction_without_axes_can_keep_its_input() -> None:
    x = np.float32([[1, -0.0, 3]])
    result = _computed("ReduceSum", x, TensorProto.FLOAT, TensorProto.FLOAT, noop_with_empty_axes=1)
    assert result.tobytes() == x.tobytes()


def test_arithmetic_of_float16_takes_every_input() -> None:
    x = np.float16([[1, -2, 0.5]])
    number = helper.np_dtype_to_tensor_dtype(x.dtype)
    assert _computed("Neg", x, number, number).tobytes() == (-x).tobytes()
