"""Any ONNX file as it is: graphs, nodes, tensors, constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import RequestError
from harness.model import structure
from harness.model.structure import Attribute, Structure
from tests.support import graphs


def read(path: Path, model: onnx.ModelProto) -> Structure:
    path.write_bytes(model.SerializeToString())
    return structure.read(path)


def test_a_file_is_read_with_operators_functions_and_graphs_that_harness_lacks(tmp_path: Path) -> None:
    found = read(tmp_path / "net.onnx", graphs.unsupported())
    main, function, other, then = found.graphs
    titles = ["graph", "function custom.Twice", "if, else_branch", "if, then_branch"]
    assert [graph.title for graph in found.graphs] == titles
    assert [(vertex.name, vertex.kind) for vertex in main.vertices] == [
        ("x", "input"), ("mystery", "node"), ("twice", "node"), ("if", "node"), ("y", "output"),
    ]  # fmt: skip
    mystery, twice, branches = main.vertices[1:4]
    assert mystery.attributes == (Attribute("level", "int", "3"), Attribute("words", "strings", "a, b"))
    assert (mystery.domain, twice.function) == ("custom", 1)
    assert [attribute.graph for attribute in branches.attributes] == [2, 3]
    assert [vertex.reads for vertex in function.vertices if vertex.kind == "node"] == [("a", "a")]
    assert then.edges["half"].constant == other.edges["half"].constant
    half = then.edges["half"].constant
    assert half is not None
    assert half.first == ("0.5",)


def test_types_are_those_of_the_file_and_of_inference(tmp_path: Path) -> None:
    nodes = [helper.make_node("Concat", ["x", "x"], ["c"], axis=1), helper.make_node("Slice", list("cabd"), ["y"])]
    constants = [
        numpy_helper.from_array(np.array([number]), name) for name, number in zip("abd", (0, 4, 1), strict=True)
    ]
    [graph] = read(tmp_path / "net.onnx", graphs.model(nodes, constants)).graphs
    texts = {name: edge.text for name, edge in graph.edges.items()}
    assert (texts["x"], texts["c"], texts["a"]) == ("N x 4 float32", "N x 8 float32", "1 int64")


def test_statistics_of_constants() -> None:
    values = np.array([-1, 0, 0, 3, np.nan, np.inf], np.float32)
    found = structure.distribution(values)
    assert (found.count, found.low, found.high, found.mean, found.not_finite) == (6, -1, 3, 0.5, 2)
    assert (found.counts[0], found.counts[6], found.counts[-1], sum(found.counts)) == (1, 2, 1, 4)
    assert structure.distribution(np.full(3, np.nan)) == structure.Distribution(3, not_finite=3)
    assert structure.distribution(np.array(["a"])) == structure.Distribution(1)
    assert structure.distribution(np.array([5, 5], np.int8)).counts == ()
    widest = np.array([-1, 0, 1], np.float32) * np.finfo(np.float32).max
    assert sum(structure.distribution(widest).counts) == 3
    large = np.arange(structure.STATISTICS_BLOCK + 5) % 7
    assert structure.distribution(large).mean == pytest.approx(large.mean())
    assert sum(structure.distribution(large).counts) == large.size


def test_external_data_is_read_in_the_folder_of_the_model_alone(tmp_path: Path) -> None:
    def external(location: str) -> str:
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=location)
        node = helper.make_node("Mystery", ["x", "w"], ["y"], domain="custom")
        [graph] = read(tmp_path / "models" / "net.onnx", graphs.model([node], [tensor])).graphs
        found = graph.edges["w"].constant
        assert found is not None
        return found.failure or ", ".join(found.first)

    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "weights").write_bytes(np.array([1.5, -2], np.float32).tobytes())
    (tmp_path / "secret").write_bytes(b"12345678")
    assert external("weights") == "1.5, -2.0"
    assert external("../secret").startswith("cannot be read")
    assert external("nothing").startswith("cannot be read")


def test_an_invalid_graph_is_shown(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["nowhere"], ["a"]), helper.make_node("Add", ["a", "b"], ["b"], name="loop")]
    [graph] = read(tmp_path / "net.onnx", graphs.model([*nodes, *nodes])).graphs
    assert [vertex.name for vertex in graph.vertices] == ["x", "Relu_0", "loop", "Relu_2", "loop", "y"]


def test_what_is_no_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").write_bytes(b"no model")
    with pytest.raises(RequestError, match="is not an ONNX model"):
        structure.read(tmp_path / "net.onnx")
    monkeypatch.setattr(structure, "MOST_NODES", 4)
    with pytest.raises(RequestError, match="has 7 nodes"):
        read(tmp_path / "net.onnx", graphs.chain(5))
