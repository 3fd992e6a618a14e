"""Scales that follow from the data, and products of such codes, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import RequestError
from harness.model import importer
from harness.model.importer import NetworkImport, dynamic
from harness.model.onnx_runtime.sessions import session

Shape = tuple[int, ...]
F = np.float32


def network(
    operator: str, shape: Shape, weights: np.ndarray[Any, Any], zero_point: Any, opset: int = 17, **attributes: Any
) -> onnx.ModelProto:
    """A product as quantize_dynamic writes it: scales, codes, sums, their scale and a bias."""
    is_image = operator == "ConvInteger"
    width = len(weights) if is_image else weights.shape[1]
    spread = (1, width, *(1,) * (len(shape) - 1)) if is_image else (width,)
    zero = np.asarray(zero_point, weights.dtype)
    constants = {
        "w": weights, "wz": zero, "ws": np.linspace(0.01, 0.02, width, dtype=F).reshape(spread),
        "b": np.linspace(-1, 1, width, dtype=F).reshape(spread),
    }  # fmt: skip
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantiser"),
        helper.make_node("Mul", ["s", "ws"], ["m"], "m"),
        helper.make_node(operator, ["q", "w", "z", "wz"], ["sums"], "sums", **attributes),
        helper.make_node("Cast", ["sums"], ["reals"], "reals", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["reals", "m"], ["scaled"], "scaled"),
        helper.make_node("Add", ["scaled", "b"], ["y"], "y"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", *[None] * len(shape)])
    graph = helper.make_graph(
        nodes, "dynamic", [x], [y], [numpy_helper.from_array(value, name) for name, value in constants.items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def imported(model: onnx.ModelProto, folder: Path) -> NetworkImport:
    """Import a model, which compares it with the file."""
    onnx.save(model, folder / "dynamic.onnx")
    result = importer.bring_in(folder / "dynamic.onnx")
    assert isinstance(result, NetworkImport)
    return result


def vectors(shape: Shape) -> list[np.ndarray[Any, Any]]:
    """Random vectors of many sizes and signs, halves between codes, and those of one value."""
    random = np.random.default_rng(0)
    drawn = [random.normal(size=shape) * 10.0 ** random.integers(-20, 20) for _ in range(40)]
    drawn += [np.abs(values) for values in drawn[:8]] + [-np.abs(values) for values in drawn[:8]]
    halves = random.integers(0, 511, (16, *shape)) / 2
    halves.reshape(16, -1)[:, 0] = 255
    constant = [np.full(shape, value) for value in (0, -0.0, 1, -1, 1e-42, 1e-45, 3e38)]
    return [np.asarray(values, F) for values in (*drawn, *halves, *constant)]


def assert_same(model: onnx.ModelProto, result: NetworkImport, shape: Shape) -> None:
    """ONNX Runtime has the same bits for both, with its optimisations and without."""
    for optimised in (False, True):
        file, ours = (
            session(data, 1, optimised=optimised) for data in (model.SerializeToString(), result.network.onnx_bytes)
        )
        for vector in vectors(shape):
            [expected], [values] = (loaded.run(None, {"x": vector[None]}) for loaded in (file, ours))
            assert values.tobytes() == expected.tobytes(), vector


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize(("shape", "dtype"), [((7,), np.int8), ((3, 40), np.uint8), ((2, 2, 5), np.int8)])
def test_sums_of_matrices_are_those_of_codes(shape: Shape, dtype: Any, opset: int, tmp_path: Path) -> None:
    limits, random = np.iinfo(dtype), np.random.default_rng(len(shape))
    weights = random.integers(limits.min, limits.max, (shape[-1], 6), dtype, endpoint=True)
    model = network("MatMulInteger", shape, weights, random.integers(limits.min, limits.max, 6), opset)
    result = imported(model, tmp_path)
    assert [layer.operator for layer in result.network.layers].count("MatMul") == 1
    assert_same(model, result, shape)


@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, {"group": 4}])
def test_sums_of_images_are_those_of_codes(attributes: dict[str, Any], tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    weights = random.integers(-128, 128, (8, 4 // attributes.get("group", 1), 3, 3)).astype(np.int8)
    model = network("ConvInteger", (4, 6, 5), weights, 3, **attributes)
    assert_same(model, imported(model, tmp_path), (4, 6, 5))


@pytest.mark.parametrize("operator", ["MatMulInteger", "ConvInteger"])
def test_long_sums_are_added_in_parts(operator: str, tmp_path: Path) -> None:
    shape = (1200,) if operator == "MatMulInteger" else (200, 3, 3)
    weights = np.full((1200, 3) if operator == "MatMulInteger" else (3, 200, 3, 3), -127, np.int8)
    model = network(operator, shape, weights, 0)
    result = imported(model, tmp_path)
    names = [layer.operator for layer in result.network.layers]
    assert names.count("Slice") == names.count("MatMul" if operator == "MatMulInteger" else "Conv") == 4
    assert_same(model, result, shape)


def test_each_vector_has_a_scale_of_its_own(tmp_path: Path) -> None:
    model = network("MatMulInteger", (4,), np.eye(4, dtype=np.int8), 0)
    ours = session(imported(model, tmp_path).network.onnx_bytes, 1)
    rows = np.array([[1, 2, 3, 4], [100, 200, 300, -400]], F)
    [together] = ours.run(None, {"x": rows})
    for row, values in zip(rows, together, strict=True):
        [alone] = ours.run(None, {"x": row[None]})
        assert alone.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.graph.node[2].input.__setitem__(1, "q"), "its second factor is no constant matrix"),
        (lambda model: model.graph.initializer[0].CopyFrom(
            numpy_helper.from_array(np.full((2, 600, 3, 3), 127, np.int8), "w")), "a sum can reach 174,879,000"),
    ],
)  # fmt: skip
def test_other_products_are_refused(change: Any, message: str) -> None:
    model = network("ConvInteger", (1200, 3, 3), np.zeros((2, 600, 3, 3), np.int8), 0, group=2)
    change(model)
    with pytest.raises(RequestError, match=message):
        dynamic.expand(model)
