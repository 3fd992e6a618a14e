"""Operators with indices, masks and samples: the network computes the file, with indices as data or constants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import graph
from harness.operators.node import domain_of
from harness.reference.backend import HarnessBackend
from tests.support.importer.graphs import saved

RANDOM = np.random.default_rng(11)


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def indices(size: int, *shape: int) -> Array:
    return RANDOM.integers(-size, size, shape)


Case = tuple[str, Mapping[str, Any], Mapping[str, Array], str]
"""Operator, attributes, values of the inputs, and the names of those that are constants."""
CASES: Mapping[str, Case] = {
    "embedding": ("Gather", {}, {"w": floats(7, 3), "i": indices(7, 2, 5)}, "w"),
    "embedding of one": ("Gather", {}, {"w": floats(7, 3), "i": indices(7)}, "w"),
    "columns": ("Gather", {"axis": 1}, {"w": floats(3, 7, 2), "i": indices(7, 4)}, "w"),
    "gather": ("Gather", {"axis": -2}, {"x": floats(2, 5, 3), "i": indices(5, 2, 2)}, ""),
    "gather of codes": ("Gather", {}, {"x": np.arange(12, dtype=np.uint8).reshape(4, 3), "i": indices(4, 2)}, ""),
    "elements": ("GatherElements", {"axis": 1}, {"x": floats(3, 5, 2), "i": indices(5, 3, 4, 2)}, ""),
    "fewer elements": ("GatherElements", {"axis": 1}, {"x": floats(3, 5, 3), "i": indices(5, 2, 4, 2)}, ""),
    "constant elements": ("GatherElements", {"axis": 0}, {"x": floats(3, 4), "i": indices(3, 2, 3)}, "i"),
    "gather nd": ("GatherND", {}, {"x": floats(3, 3, 4), "i": indices(3, 2, 5, 2)}, ""),
    "gather nd of vectors": ("GatherND", {"batch_dims": 1}, {"x": floats(2, 3, 4), "i": indices(3, 2, 1)}, ""),
    "constant gather nd": ("GatherND", {}, {"x": floats(3, 3, 4), "i": indices(3, 2, 2)}, "i"),
    "scatter": (
        "ScatterElements", {"axis": 1, "reduction": "add"},
        {"x": floats(2, 4, 3), "i": indices(4, 2, 5, 3), "u": floats(2, 5, 3)}, "",
    ),
    "scatter at constants": (
        "ScatterElements", {"axis": 1},
        {"x": floats(2, 4), "i": np.array([[1, -1], [0, 0]]), "u": floats(2, 2)}, "i",
    ),
    "scatter constants": (
        "ScatterElements", {"axis": 1},
        {"x": floats(2, 4), "i": np.array([[1, -1], [0, 2]]), "u": floats(2, 2)}, "iu",
    ),
    "scatter nd": (
        "ScatterND", {"reduction": "max"}, {"x": floats(3, 2, 4), "i": indices(2, 5, 2), "u": floats(5, 4)}, "",
    ),
    "scatter nd at constants": (
        "ScatterND", {}, {"x": floats(3, 4), "i": np.array([[2], [0]]), "u": floats(2, 4)}, "i",
    ),
    "largest": ("TopK", {"axis": 0}, {"x": floats(5, 3), "k": np.array([2])}, "k"),
    "upper": ("Trilu", {}, {"x": floats(2, 3, 4), "k": np.array(1)}, "k"),
    "hard maximum": ("Hardmax", {"axis": 1}, {"x": np.round(floats(4, 5, 2))}, ""),
    "one hot": ("OneHot", {"axis": 1}, {"i": indices(4, 3, 2), "d": np.array(4), "v": floats(2)}, "dv"),
    "compress": ("Compress", {"axis": 1}, {"x": floats(3, 4), "c": np.array([True, False, True])}, "c"),
    "compress all": ("Compress", {}, {"x": floats(3, 4), "c": np.array([True, False, True])}, "c"),
    "reverse": ("ReverseSequence", {}, {"x": floats(5, 3, 2), "n": np.array([1, 5, 3])}, "n"),
    "crop and pad": ("CenterCropPad", {}, {"x": floats(5, 2, 4), "s": np.array([2, 5, 3])}, "s"),
    "linear samples": (
        "GridSample", {"padding_mode": "reflection"}, {"x": floats(2, 3, 4, 5), "g": floats(2, 3, 2, 2)}, "",
    ),
    "cubic samples": (
        "GridSample", {"mode": "cubic", "align_corners": 1}, {"x": floats(1, 2, 4, 5), "g": floats(1, 3, 2, 2)}, "",
    ),
    "image of columns": (
        "Col2Im", {"strides": [2, 1], "pads": [1, 0, 0, 1]},
        {"x": floats(1, 12, 9), "s": np.array([5, 3]), "b": np.array([2, 2])}, "sb",
    ),
    "einsum": ("Einsum", {"equation": "bij,bkj->bik"}, {"x": floats(2, 3, 4), "z": floats(2, 5, 4)}, ""),
    "einsum of rows": ("Einsum", {"equation": "...ii->...i"}, {"x": floats(2, 3, 3)}, ""),
    "sum of products": ("Einsum", {"equation": "ij,jk"}, {"x": floats(3, 4), "z": floats(4, 2)}, "z"),
}  # fmt: skip


def file_of(case: Case) -> onnx.ModelProto:
    operator, attributes, values, constant = case
    outputs = ["y", "places"] if operator == "TopK" else ["y"]
    proto = helper.make_node(operator, list(values), outputs, "node", **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in values.items()
        if name not in constant
    ]
    stored = [numpy_helper.from_array(values[name], name) for name in constant]
    source = helper.make_graph([proto], "graph", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], stored)
    file = helper.make_model(source, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnx.shape_inference.infer_shapes(file)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_network_computes_the_file(name: str) -> None:
    file, (_, _, values, constant) = file_of(CASES[name]), CASES[name]
    inputs = [array for own, array in values.items() if own not in constant]
    names = [own for own in values if own not in constant]
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(zip(names, inputs, strict=True)))
    results = HarnessBackend.prepare(file)
    assert results._network is not None  # all inputs stay inputs
    for result, right in zip(results.run(inputs), map(np.asarray, expected), strict=True):
        assert result.dtype == right.dtype
        np.testing.assert_allclose(result.reshape(right.shape), right, rtol=1e-5, atol=1e-5)


def test_indices_that_are_data_are_behind_a_clip(tmp_path: Path) -> None:
    file = file_of(CASES["embedding"])
    network = graph.load(saved(tmp_path, file.SerializeToString()))
    assert [layer.operator for layer in network.layers if layer.operator in ("Clip", "GatherElements")] == [
        "Clip", "GatherElements",
    ]  # fmt: skip
    result = HarnessBackend.run_model(file, [np.array([[7, 100, -8, -(2**40), 0]] * 2)])[0]
    table = CASES["embedding"][2]["w"]
    assert np.array_equal(result.reshape(2, 5, 3)[0], table[[6, 6, 0, 0, 0]])


@pytest.mark.parametrize(
    ("case", "values", "message"),
    [
        ("constant elements", {"i": np.full((2, 3), 3)}, "indices from 3 to 3 of an axis with 3 places"),
        ("constant gather nd", {"i": np.full((2, 2), -4)}, "indices from -4 to -4 of an axis with 3 places"),
        ("scatter constants", {"i": np.array([[0, 4], [0, 0]])}, "indices from 0 to 4 of an axis with 4 places"),
    ],
)
def test_constant_indices_beyond_the_axis_are_refused(
    tmp_path: Path, case: str, values: dict[str, Array], message: str
) -> None:
    operator, attributes, before, constant = CASES[case]
    file = file_of((operator, attributes, {**before, **values}, constant))
    with pytest.raises(RequestError, match=message):
        graph.load(saved(tmp_path, file.SerializeToString()))


def test_functions_of_the_domain_are_declared_once(tmp_path: Path) -> None:
    network = graph.load(saved(tmp_path, file_of(CASES["scatter"]).SerializeToString()))
    file = onnx.load_model_from_string(network.onnx_bytes)
    assert [function.name for function in file.functions] == ["ScatterElements"]
    assert any(domain_of(node) == "harness" for node in file.graph.node)
