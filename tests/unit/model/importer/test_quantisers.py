"""Quantisation of other types, of axes and of blocks has the values that ONNX states."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

from harness import backend
from harness.core.arrays import Array
from harness.operators.tensor import integer_limits

SCALES = np.float32([[0.5, 0.01, 2, 0.3], [0.25, 1, 3, 0.7]])
CASES: list[tuple[Any, dict[str, int], Array]] = [
    (np.int16, {}, np.float32(0.03)),
    (np.uint16, {}, np.float32(0.003)),
    (np.int8, {"axis": 2}, SCALES[0]),
    (np.uint8, {"axis": 2}, SCALES[1]),
    (ml_dtypes.int4, {"axis": 2}, SCALES[0]),
    (ml_dtypes.uint4, {}, np.float32(0.3)),
    (ml_dtypes.int2, {}, np.float32(1.5)),
    (np.uint8, {"axis": 1, "block_size": 3}, SCALES[None]),
]


def _model(operator: str, x: Array, constants: list[Array], result: np.dtype[Any], **attributes: int) -> Any:
    number = helper.np_dtype_to_tensor_dtype
    values = [
        helper.make_tensor_value_info(name, number(kind), x.shape) for name, kind in (("x", x.dtype), ("y", result))
    ]
    names = ["scale", "zero"][: len(constants)]
    tensors = [numpy_helper.from_array(array, name) for array, name in zip(constants, names, strict=True)]
    node = helper.make_node(operator, ["x", *names], ["y"], **attributes)
    graph = helper.make_graph([node], "g", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


def _spread(values: Array, attributes: dict[str, int]) -> Array:
    return np.repeat(values, 3, 1) if attributes.get("block_size") else values


@pytest.mark.parametrize(("kind", "attributes", "scale"), CASES)
def test_quantisation_and_its_inverse_follow_their_formulas(
    kind: Any, attributes: dict[str, int], scale: Array
) -> None:
    dtype, rng = np.dtype(kind), np.random.default_rng(0)
    low, high = integer_limits(dtype)
    zero = rng.integers(max(low, -50), min(high, 50) + 1, scale.shape).astype(dtype)
    x = np.concatenate([rng.normal(0, 40, (1, 5, 4)), [[[1e30, -1e30, 0.25, -0.75]]]], 1).astype(np.float32)
    [codes] = backend.run_model(_model("QuantizeLinear", x, [scale, zero], dtype, **attributes), [x])
    factor, offset = _spread(scale, attributes), _spread(zero.astype(np.int64), attributes)
    expected = np.clip(np.rint(x / factor) + offset.astype(np.float32), low, high)
    assert codes.dtype == dtype
    np.testing.assert_array_equal(codes.astype(np.float32), expected)
    [y] = backend.run_model(
        _model("DequantizeLinear", codes, [scale, zero], np.dtype(np.float32), **attributes), [codes]
    )
    np.testing.assert_array_equal(y, (expected.astype(np.int64) - offset).astype(np.float32) * factor)


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_floats_of_a_byte_are_the_nearest_ones(kind: Any) -> None:
    dtype, scale = np.dtype(kind), np.float32(0.5)
    x = np.float32([[0.3, -1.7, 1e6, 1000, 0.001]])
    [codes] = backend.run_model(_model("QuantizeLinear", x, [scale, np.zeros((), dtype)], dtype), [x])
    limit = float(ml_dtypes.finfo(kind).max)
    np.testing.assert_array_equal(
        codes.astype(np.float32), np.clip(x / scale, -limit, limit).astype(kind).astype(np.float32)
    )


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4, np.uint16])
def test_weights_of_blocks_are_the_numbers_of_onnx_runtime(kind: Any) -> None:
    """The import compares the sums with ONNX Runtime, bit for bit."""
    dtype, rng = np.dtype(kind), np.random.default_rng(1)
    low, high = integer_limits(dtype)
    codes, scale = rng.integers(low, high, (6, 4)).astype(dtype), rng.uniform(0.1, 1, (2, 4)).astype(np.float32)
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scale"], ["w"], axis=0, block_size=3),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scale, "scale")]
    graph = helper.make_graph(nodes, "g", [value("x", 1, ["n", 6])], [value("y", 1, ["n", 4])], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    x = np.eye(6, dtype=np.float32)
    [y] = backend.run_model(model, [x])
    np.testing.assert_array_equal(y, codes.astype(np.float32) * np.repeat(scale, 3, 0))
