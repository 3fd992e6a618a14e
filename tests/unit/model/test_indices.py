"""Ranges of indices among the inputs: those of the axis, but not where the network computes an index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import RequestError
from harness.model import graph
from harness.model.indices import index_ranges
from harness.model.network import Network
from harness.reference.stimuli import stimuli
from harness.reference.vector_files import from_file, require_indices
from tests.support.importer.graphs import saved
from tests.unit.model.importer.test_selections import CASES, file_of

RANGES = {
    "embedding": ([-7] * 5, [6] * 5),
    "gather of codes": ([-4] * 2, [3] * 2),
    "fewer elements": ([-5] * 16, [4] * 16),
    "scatter": ([-4] * 15, [3] * 15),
    "scatter nd": ([-3, -2] * 5, [2, 1] * 5),
}


def network_of(case: str, folder: Path) -> Network:
    return graph.load(saved(folder, file_of(CASES[case]).SerializeToString()))


@pytest.mark.parametrize("case", RANGES)
def test_an_input_that_is_an_index_has_the_range_of_the_axis(case: str, tmp_path: Path) -> None:
    network = network_of(case, tmp_path)
    [found] = index_ranges(network.inputs, network.layers)
    assert (found.input, found.node) == ("i", "node")
    assert (found.low.tolist(), found.high.tolist()) == RANGES[case]
    drawn = network.values(stimuli(network, 3000, 1).chunk(0, 3000))["i"]
    assert found.outside(drawn) is None
    assert ((drawn.min(axis=0) == found.low) & (drawn.max(axis=0) == found.high)).all()


@pytest.mark.parametrize("case", ["one hot", "largest", "constant elements"])
def test_other_inputs_have_no_range(case: str, tmp_path: Path) -> None:
    """ONNX defines a OneHot of an index beyond: all values are off."""
    network = network_of(case, tmp_path)
    assert index_ranges(network.inputs, network.layers) == []


@pytest.mark.parametrize(
    ("nodes", "places"),
    [
        ([helper.make_node("Clip", ["i", "low", "high"], ["c"], "limit")], []),
        ([helper.make_node("Add", ["i", "low"], ["c"], "sum")], []),
        (
            [
                helper.make_node("Cast", ["i"], ["s"], "short", to=TensorProto.INT32),
                helper.make_node("Slice", ["s", "first", "behind", "axes"], ["c"], "part"),
            ],
            [1, 2],
        ),
    ],
    ids=["limited", "computed", "moved"],
)
def test_only_moved_indices_have_a_range(nodes: list[onnx.NodeProto], places: list[int], tmp_path: Path) -> None:
    """A Clip of the file defines the value of an index beyond."""
    numbers = {"low": 0, "high": 6, "first": [1], "behind": [3], "axes": [1]}
    stored = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items()]
    table = numpy_helper.from_array(np.arange(14, dtype=np.float32).reshape(7, 2), "w")
    gather = helper.make_node("Gather", ["w", "c"], ["y"], "words")
    source = helper.make_graph(
        [*nodes, gather],
        "graph",
        [helper.make_tensor_value_info("i", TensorProto.INT64, ["n", 4])],
        [onnx.ValueInfoProto(name="y")],
        [*stored, table],
    )
    file = helper.make_model(source, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    network = graph.load(saved(tmp_path, onnx.shape_inference.infer_shapes(file).SerializeToString()))
    ranges = index_ranges(network.inputs, network.layers)
    assert [(indices.node, indices.places.tolist()) for indices in ranges] == ([("words", places)] if places else [])


def test_vectors_with_an_index_beyond_the_axis_are_refused(tmp_path: Path) -> None:
    network = network_of("embedding", tmp_path)
    path, values = tmp_path / "vectors.npy", np.zeros((5000, 5), np.int64)
    values[:, 1], values[:, 2] = 6, -7
    np.save(path, values)
    require_indices(path, network, from_file(path, network))
    values[4321, 3] = 7
    np.save(path, values)
    with pytest.raises(RequestError) as refused:
        require_indices(path, network, from_file(path, network))
    assert "'i', value 3 of vector 4321 is 7, an index of node 'node' beyond its axis" in refused.value.message
    assert refused.value.hint == "give indices from -7 to 6"
