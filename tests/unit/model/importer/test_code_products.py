"""Products of codes with several rows, and of two activations, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import RequestError
from harness.model import importer
from harness.model.importer import NetworkImport

ROWS = 5
F = np.float32


def product(depth: int, weights: np.ndarray[Any, Any] | None, kind: type[np.integer[Any]] = np.int8) -> onnx.ModelProto:
    """A QLinearMatMul of (vectors, ROWS, depth) and weights, or of two such activations, the second one transposed."""
    zero = np.array(3, kind)
    columns = 1 if weights is None else weights.shape[1]
    scale = np.linspace(0.01, 0.02, columns, dtype=F) if columns > 1 else F(0.01)
    constants = {"s": F(0.02), "z": zero, "w_s": scale, "w_z": np.zeros(np.shape(scale), np.int8), "y_s": F(0.05)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "q")]
    second = ["w", "w_s", "w_z"]
    if weights is None:
        nodes.append(helper.make_node("Transpose", ["q"], ["w"], "w", perm=[0, 2, 1]))
        second = ["w", "s", "z"]
    else:
        constants["w"] = weights
    nodes.append(helper.make_node("QLinearMatMul", ["q", "s", "z", *second, "y_s", "z"], ["p"], "p"))
    nodes.append(helper.make_node("DequantizeLinear", ["p", "y_s", "z"], ["d"], "d"))
    nodes.append(helper.make_node("Neg", ["d"], ["y"], "y"))
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", ROWS, size])
        for name, size in (("x", depth), ("y", ROWS if weights is None else columns))
    )
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "product", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def imported(model: onnx.ModelProto, folder: Path) -> NetworkImport:
    """Import the model, which compares it with the file bit for bit."""
    onnx.save(model, folder / "product.onnx")
    result = importer.bring_in(folder / "product.onnx")
    assert isinstance(result, NetworkImport)
    return result


def test_rows_with_constant_weights_are_a_convolution(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).integers(-90, 91, (7, 4)).astype(np.int8)
    result = imported(product(7, weights), tmp_path)
    assert [layer.operator for layer in result.network.layers].count("QLinearConv") == 1
    assert "p" in result.check.tensors


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_product_of_activations_is_one_of_integers(kind: type[np.integer[Any]], tmp_path: Path) -> None:
    result = imported(product(7, None, kind), tmp_path)
    names = [layer.operator for layer in result.network.layers]
    assert (names.count("MatMul"), names.count("Mul"), names.count("QuantizeLinear")) == (1, 1, 2)
    assert "p" in result.check.tensors


def test_sums_that_float32_may_round_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="its sums of 2000 products reach"):
        imported(product(2000, None), tmp_path)
