"""Nodes that state the number of vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import RequestError
from harness.model.graph import load
from harness.reference.specification import SpecificationReference


def resize(path: Path, before: int, after: int, opset: int) -> None:
    """Write a Resize of images (n, 2, before, 4) to sizes (1, 2, after, 4), all axes stated as PyTorch does."""
    options = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], "resize", **options)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2, side, 4])
            for name, side in (("x", before), ("y", after)))  # fmt: skip
    sizes = numpy_helper.from_array(np.array([1, 2, after, 4]), "sizes")
    graph = helper.make_graph([node], "net", [x], [y], [sizes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)


@pytest.mark.parametrize(("before", "after", "opset"), [(4, 8, 17), (4, 3, 17), (4, 8, 18), (3, 5, 18)])
def test_sizes_of_all_axes_are_those_of_any_number_of_vectors(
    tmp_path: Path, before: int, after: int, opset: int
) -> None:
    resize(tmp_path / "net.onnx", before, after, opset)
    network = load(tmp_path / "net.onnx")
    x = np.random.default_rng(0).normal(size=(3, 2, before, 4)).astype(np.float32)
    y = SpecificationReference(network).activations(x.reshape(3, -1))[-1]
    rows = np.arange(after) * before // after
    assert y.tobytes() == x[:, :, rows].tobytes()


def test_sizes_that_no_float32_scale_says_exactly_are_refused_before_opset_18(tmp_path: Path) -> None:
    resize(tmp_path / "net.onnx", 3, 5, 17)
    with pytest.raises(RequestError, match="state the number of vectors"):
        load(tmp_path / "net.onnx")
