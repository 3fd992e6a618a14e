"""Operators whose number of rows depends on the data: rows of ONNX, then rows of -1; refusals name the node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import graph
from harness.model.onnx_runtime.agreement import padded
from harness.reference.specification import SpecificationReference
from tests.support.importer.graphs import saved

LIMITS: Mapping[str, Array] = {"most": np.array([2]), "iou": np.float32([0.5]), "least": np.float32([0])}


def detector(*, constants: Mapping[str, Array] = LIMITS, reader: bool = False) -> onnx.ModelProto:
    """A NonMaxSuppression of 3 boxes and 2 classes; limits that are no constants are inputs."""
    names = ["boxes", "scores", *LIMITS]
    nodes = [helper.make_node("NonMaxSuppression", names, ["rows"], "nms")]
    nodes += [helper.make_node("Neg", ["rows"], ["y"], "neg")] if reader else []
    shapes = {"boxes": ["n", 3, 4], "scores": ["n", 2, 3]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    inputs += [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)
        for name, values in LIMITS.items()
        if name not in constants
    ]
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.INT64, ["rows", 3])
    initializers = [numpy_helper.from_array(values, name) for name, values in constants.items()]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, [output], initializers),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip


def test_a_network_gives_rows_for_each_vector(tmp_path: Path) -> None:
    network = graph.load(saved(tmp_path, detector().SerializeToString()))
    assert network.layers[-1].output.shape == (4, 3)
    assert "its rows have a bound, and those that ONNX does not give are -1" in network.metadata["source_changes"]


@pytest.mark.parametrize("missing", LIMITS)
def test_a_limit_that_is_data_is_refused(missing: str, tmp_path: Path) -> None:
    model = detector(constants={name: values for name, values in LIMITS.items() if name != missing})
    with pytest.raises(RequestError, match=r"'nms' \(NonMaxSuppression\): its \w+ is no constant number"):
        graph.load(saved(tmp_path, model.SerializeToString()))


def test_a_node_that_reads_the_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="its number of rows depends on the data, and node 'neg' reads it"):
        graph.load(saved(tmp_path, detector(reader=True).SerializeToString()))


def test_no_box_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="max_output_boxes_per_class is 0"):
        graph.load(saved(tmp_path, detector(constants={**LIMITS, "most": np.array([0])}).SerializeToString()))


def test_missing_rows_are_minus_one() -> None:
    rows = np.array([[0, 1, 2]])
    assert padded(rows, (1, 2, 3)).tolist() == [[[0, 1, 2], [-1, -1, -1]]]
    assert padded(rows, (1, 2, 2)) is rows
    assert padded(rows, (2, 2, 3)) is rows


@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_the_places_of_numbers_other_than_0_come_first(share: float, tmp_path: Path) -> None:
    """The places are columns, in the order of the values; the others are -1."""
    x = np.random.default_rng(2).uniform(size=(1, 3, 4)) < share
    values = x.astype(np.float32) * np.float32(-0.5)
    graph_of_node = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [3, "places"])],
    )
    model = helper.make_model(graph_of_node, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    network = graph.load(saved(tmp_path, model.SerializeToString()))
    result = SpecificationReference(network).activations(values.reshape(1, -1))[-1]
    np.testing.assert_array_equal(result.reshape(3, 12), padded(np.array(np.nonzero(x)), (1, 3, 12)).reshape(3, 12))
