"""Powers, determinants, cumulated products and places of greatest values have the values of NumPy or ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pytest
from onnx import TensorProto, helper

from harness import backend
from harness.core.arrays import Array
from harness.core.errors import RequestError

RANDOM = np.random.default_rng(7)


def model_of(
    node: onnx.NodeProto, x: Array, constants: dict[str, Array], shape: tuple[int, ...], *kinds: int
) -> onnx.ModelProto:
    """Return a model of one node with the input x, whose outputs have this shape, and float32 or these types."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(*value, shape) for value in zip(node.output, kinds or (1,), strict=True)],
        [onnx.numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("exponents", [[4.0], [7.0], [-3.0], [0.7], [-1.3], [1, 2, 3, 5], [0, 4, 4, 0.5]])
def test_powers_of_constant_exponents(exponents: list[float]) -> None:
    x = np.abs(RANDOM.normal(size=(3, 4)) + 0.1).astype(np.float32)
    abs_node = helper.make_node("Abs", ["x"], ["a"])
    model = model_of(helper.make_node("Pow", ["a", "e"], ["y"]), x, {"e": np.array(exponents, np.float32)}, x.shape)
    model.graph.node.insert(0, abs_node)
    [y] = backend.run_model(model, [x])
    np.testing.assert_allclose(y, x.astype(np.float64) ** np.array(exponents), rtol=2e-6)


def test_powers_of_a_constant_base() -> None:
    x, bases = RANDOM.normal(size=(3, 4)).astype(np.float32), np.array([2, 0.5, 10, 1], np.float32)
    model = model_of(helper.make_node("Pow", ["b", "x"], ["y"]), x, {"b": bases}, x.shape)
    [y] = backend.run_model(model, [x])
    np.testing.assert_allclose(y, bases.astype(np.float64) ** x, rtol=2e-6)


def test_powers_of_integers_are_modulo_the_type() -> None:
    x = np.array([[-3, 0, 7, 2**20]], np.int32)
    model = model_of(helper.make_node("Pow", ["x", "e"], ["y"]), x, {"e": np.array(5)}, x.shape, TensorProto.INT32)
    [y] = backend.run_model(model, [x])
    np.testing.assert_array_equal(y, x**5)


def test_a_root_of_numbers_of_any_sign_is_refused() -> None:
    x = np.ones((1, 2), np.float32)
    model = model_of(helper.make_node("Pow", ["x", "e"], ["y"]), x, {"e": np.array([0.7], np.float32)}, x.shape)
    with pytest.raises(RequestError, match=r"Log.*can be NaN"):
        backend.prepare(model)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_determinants(rows: int) -> None:
    x = RANDOM.normal(size=(2, 3, rows, rows)).astype(np.float32)
    [y] = backend.run_model(model_of(helper.make_node("Det", ["x"], ["y"]), x, {}, (2, 3)), [x])
    np.testing.assert_allclose(y, np.linalg.det(x.astype(np.float64)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_cumulated_products(reverse: int, exclusive: int, dtype: type) -> None:
    x = RANDOM.integers(-4, 5, (2, 5, 3)).astype(dtype)
    node = helper.make_node("CumProd", ["x", "axis"], ["y"], reverse=reverse, exclusive=exclusive)
    model = model_of(node, x, {"axis": np.array(1)}, x.shape, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    model.opset_import[0].version = 26
    [y] = backend.run_model(model, [x])
    rows = x[:, ::-1] if reverse else x
    expected = np.cumprod(rows, axis=1, dtype=dtype)
    if exclusive:
        expected = np.concatenate([np.ones_like(x[:, :1]), expected[:, :-1]], axis=1)
    np.testing.assert_array_equal(y, expected[:, ::-1] if reverse else expected)


@pytest.mark.parametrize(
    ("image", "stated"),
    [
        ((6, 5), {"kernel_shape": [2, 2]}),
        ((4, 6), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
        ((5, 4), {"kernel_shape": [2, 3], "dilations": [2, 1], "storage_order": 1}),
    ],
)
def test_places_of_greatest_values(image: tuple[int, int], stated: dict[str, list[int] | int]) -> None:
    """The first one of equal values is chosen, as ONNX Runtime does."""
    x = RANDOM.integers(-2, 3, (1, 3, 7, 6)).astype(np.float32)
    node = helper.make_node("MaxPool", ["x"], ["y", "z"], **stated)
    model = model_of(node, x, {}, (1, 3, *image), TensorProto.FLOAT, TensorProto.INT64)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for result, expected in zip(backend.run_model(model, [x]), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(result.reshape(expected.shape), expected)
