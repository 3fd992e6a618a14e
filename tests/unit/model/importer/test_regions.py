"""DeformConv and RoiAlign have the values of ONNX Runtime, within the roundings of sums of another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pytest
from onnx import helper

from harness import backend
from harness.core.arrays import Array
from harness.core.errors import RequestError

RANDOM = np.random.default_rng(3)


def assert_same(
    node: onnx.NodeProto, inputs: dict[str, Array], constants: dict[str, Array], shape: tuple[int, ...], opset: int
) -> None:
    """Compare a model of one node with ONNX Runtime."""
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, 1, values.shape) for name, values in inputs.items()],
        [helper.make_tensor_value_info("y", 1, shape)],
        [onnx.numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    [expected] = session.run(None, inputs)
    [y] = backend.run_model(model, [*inputs.values()])
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def numbers(*shape: int, scale: float = 1) -> Array:
    return (RANDOM.normal(size=shape) * scale).astype(np.float32)


@pytest.mark.parametrize(
    ("stated", "groups", "has_mask"),
    [({}, 1, False), ({"pads": [1, 0, 1, 1], "strides": [2, 1]}, 1, True), ({"dilations": [2, 1]}, 2, True)],
)
def test_deformed_convolutions(stated: dict[str, Any], groups: int, has_mask: bool) -> None:
    """Offsets reach beyond the image, where values are 0."""
    x, w, b = numbers(1, 4, 7, 6), numbers(6, 4 // groups, 3, 2), numbers(6)
    pads, strides, dilations = (stated.get(name, default) for name, default in
                                (("pads", [0] * 4), ("strides", [1, 1]), ("dilations", [1, 1])))  # fmt: skip
    sizes = [
        (x.shape[axis + 2] + pads[axis] + pads[axis + 2] - dilations[axis] * (w.shape[axis + 2] - 1) - 1)
        // strides[axis] + 1
        for axis in range(2)
    ]  # fmt: skip
    inputs = {"x": x, "offset": numbers(1, groups * 12, *sizes, scale=3)}
    if has_mask:
        inputs["mask"] = numbers(1, groups * 6, *sizes)
    names = ["x", "w", "offset", "b", *(["mask"] if has_mask else [])]
    node = helper.make_node("DeformConv", names, ["y"], group=groups, offset_group=groups, **stated)
    assert_same(node, inputs, {"w": w, "b": b}, (1, 6, *sizes), 19)


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("samples", [1, 2, 3])
def test_aligned_regions(mode: str, samples: int) -> None:
    """Regions can reach beyond the image, and be narrower than a place."""
    corners = RANDOM.uniform(-3, 9, (5, 2)).astype(np.float32)
    rois = np.concatenate([corners, corners + RANDOM.uniform(0, 9, (5, 2)).astype(np.float32)], axis=1)
    inputs = {"x": numbers(1, 3, 8, 7), "rois": rois}
    stated = {"output_height": 3, "output_width": 2, "sampling_ratio": samples, "spatial_scale": 0.75}
    node = helper.make_node("RoiAlign", ["x", "rois", "batch"], ["y"], coordinate_transformation_mode=mode, **stated)
    assert_same(node, inputs, {"batch": np.zeros(5, np.int64)}, (5, 3, 3, 2), 16)


def test_a_number_of_samples_that_is_data_is_refused() -> None:
    node = helper.make_node("RoiAlign", ["x", "rois", "batch"], ["y"], output_height=2, output_width=2)
    inputs = {"x": numbers(1, 1, 4, 4), "rois": np.zeros((1, 4), np.float32)}
    with pytest.raises(RequestError, match="sampling_ratio is 0"):
        assert_same(node, inputs, {"batch": np.zeros(1, np.int64)}, (1, 1, 2, 2), 16)
