"""Linear operators as products with constant matrices: their values are those of ONNX's reference evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from harness.core.errors import RequestError
from harness.model import load
from harness.model.importer import linear_maps
from harness.model.importer.changes import changes_of
from harness.reference import SpecificationReference
from tests.support.importer.graphs import model, node, saved

F = np.float32
RANDOM = np.random.default_rng(3)
SIZES, SCALES = {"sizes": np.array([1, 2, 7, 3])}, {"scales": F([1, 1, 0.8, 1.7])}
PARTS = {"roi": F([0.1, -0.2, 0.9, 1.1]), "sizes": np.array([4, 5])}
CROPPED = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "axes": [2, 3]}
RESIZE = [
    ({"mode": "cubic"}, SCALES), ({"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}, SCALES),
    ({"mode": "cubic", "antialias": 1}, SIZES), ({"mode": "linear", "antialias": 1}, SIZES),
    ({"mode": "cubic", "coordinate_transformation_mode": "align_corners"}, SCALES),
    ({"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, SCALES),
    ({"mode": "cubic", "coordinate_transformation_mode": "asymmetric"}, SCALES),
    ({**CROPPED, "extrapolation_value": 7.0}, PARTS), ({**CROPPED, "axes": [1, 2]}, PARTS),
    ({"mode": "linear", "keep_aspect_ratio_policy": "not_larger", "antialias": 1, "axes": [2, 3]},
     {"sizes": np.array([3, 4])}),
]  # fmt: skip
DFT = [
    (17, {}, {}, (6, 3, 1)), (19, {"axis": 2, "onesided": 1}, {}, (3, 7, 1)), (19, {"inverse": 1}, {}, (6, 2)),
    (20, {"inverse": 1, "onesided": 1}, {"": None, "axis": np.array(1)}, (6, 3, 2)),
    (20, {}, {"length": np.array(9), "axis": np.array(-2)}, (6, 3, 2)), (20, {}, {"length": np.array(4)}, (3, 6, 1)),
]  # fmt: skip
STFT = [
    ({}, {"step": np.array(3), "window": np.hanning(8).astype(F)}, (21, 1)),
    ({"onesided": 0}, {"step": np.array(2), "": None, "size": np.array(6)}, (9, 2)),
]
GRIDS = [
    ({}, [1, 1, 3, 4], (2, 3)), ({"align_corners": 1}, [1, 1, 2, 5], (2, 3)),
    ({"align_corners": 1}, [1, 2, 3, 2, 4], (3, 4)),
]  # fmt: skip
CASES = [
    *((20, node("AffineGrid", "x size", "y", **attributes), {"size": np.array(size)}, shape)
      for attributes, size, shape in GRIDS),
    *((18, node("Resize", f"x {' '.join(name if name in given else '-' for name in ('roi', 'scales', 'sizes'))}", "y",
                **attributes), given, (2, 4, 6)) for attributes, given in RESIZE),
    *((opset, node("DFT", " ".join(["x", *(name or "-" for name in given)]), "y", **attributes), given, shape)
      for opset, attributes, given, shape in DFT),
    *((17, node("STFT", " ".join(["x", *(name or "-" for name in given)]), "y", **attributes), given, shape)
      for attributes, given, shape in STFT),
]  # fmt: skip


def network(opset: int, operator: onnx.NodeProto, given: dict[str, Any], shape: tuple[int, ...]) -> bytes:
    constants = {name: value for name, value in given.items() if name}
    return model([operator], constants, shape=[1, *shape], opset=opset)


@pytest.mark.parametrize(("opset", "operator", "given", "shape"), CASES)
def test_the_values_are_those_of_the_reference_evaluator(
    opset: int, operator: onnx.NodeProto, given: dict[str, Any], shape: tuple[int, ...], tmp_path: Path
) -> None:
    onnx_bytes = network(opset, operator, given, shape)
    imported = load(saved(tmp_path, onnx_bytes))
    assert f"{operator.op_type} 'node_y': products with constant matrices" in changes_of(imported.metadata)
    vectors = RANDOM.normal(size=(3, *shape)).astype(F)
    evaluator = ReferenceEvaluator(onnx.load_model_from_string(onnx_bytes))
    expected = np.concatenate([np.asarray(evaluator.run(None, {"x": vector[None]})[0]) for vector in vectors])
    results = SpecificationReference(imported).activations(vectors.reshape(3, -1))[-1]
    np.testing.assert_allclose(results, expected.reshape(3, -1), rtol=1e-5, atol=1e-5)


def test_a_deviation_of_onnx_runtime_is_named(tmp_path: Path) -> None:
    """ONNX Runtime takes the rounded size in the place of scale * size."""
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    onnx_bytes = network(18, node("Resize", "x - scales", "y", **attributes), SCALES, (2, 4, 6))
    notes = changes_of(load(saved(tmp_path, onnx_bytes)).metadata)
    assert any(note.startswith("Resize 'node_y': ONNX Runtime deviates from ONNX") for note in notes)


@pytest.mark.parametrize(
    ("opset", "operator", "given", "shape", "message"),
    [
        (20, node("DFT", "x - axis", "y"), {"axis": np.array(0)}, (6, 2), r"\(DFT\): axis is 0, the last one has"),
        (17, node("DFT", "x", "y"), {}, (6, 3), r"\(DFT\): axis is 1, the last one has \(3,\) values"),
        (17, node("STFT", "x s - n", "y"), {"s": np.array(1), "n": np.array(7)}, (6, 1), "frames of 7 are 1 apart"),
        (17, node("STFT", "x s w n", "y"), {"s": np.array(1), "w": np.ones(3, F), "n": np.array(4)}, (6, 1),
         r"the window has shape \(3,\)"),
        (20, node("AffineGrid", "x s", "y"), {"s": np.array([1, 1, 3, 4])}, (3, 4), r"the size is \[3, 4\]"),
        (20, node("AffineGrid", "x s", "y", align_corners=1), {"s": np.array([1, 1, 1, 4])}, (2, 3),
         r"the size is \[1, 4\]"),
        (18, node("Resize", "x - s", "y", mode="cubic"), {"s": F([1, 1, 1e-3, 1])}, (2, 4, 6), "it is cubic"),
    ],
)  # fmt: skip
def test_what_has_no_matrix_is_refused(
    opset: int, operator: onnx.NodeProto, given: dict[str, Any], shape: tuple[int, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=message):
        load(saved(tmp_path, network(opset, operator, given, shape)))


def test_a_wrong_matrix_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = linear_maps._transform
    monkeypatch.setattr(linear_maps, "_transform", lambda *given, **named: -right(*given, **named))
    with pytest.raises(RequestError, match="ONNX's reference evaluator has other values than its matrices"):
        load(saved(tmp_path, network(17, node("DFT", "x", "y"), {}, (6, 1))))


SUMS: dict[str, Any] = {"w": RANDOM.integers(-9, 9, (3, 2, 2, 3)).astype(np.int8), "zx": np.uint8(100)}


def integers(zero_points: Any, attributes: dict[str, Any], **given: Any) -> bytes:
    nodes = [node("ConvInteger", "x w zx zw", "y", **attributes)]
    constants = SUMS | {"zw": np.asarray(zero_points, np.int8), **given}
    outputs = {"y": onnx.TensorProto.INT32}
    return model(nodes, constants, shape=["n", 2, 5, 4], kind=onnx.TensorProto.UINT8, outputs=outputs, opset=13)


@pytest.mark.parametrize(
    ("zero_points", "attributes"),
    [(3, {"pads": [1, 0, 2, 1]}), ([1, -2, 0], {"strides": [2, 1], "auto_pad": "SAME_UPPER"})],
)
def test_sums_of_codes_are_exact(zero_points: Any, attributes: dict[str, Any], tmp_path: Path) -> None:
    """ONNX Runtime has one zero point of the weights only."""
    onnx_bytes = integers(zero_points, attributes)
    centred = SUMS["w"] - np.asarray(zero_points, np.int8).reshape(-1, 1, 1, 1)
    x = RANDOM.integers(0, 256, (7, 2, 5, 4)).astype(np.uint8)
    [expected] = onnxruntime.InferenceSession(integers(0, attributes, w=centred)).run(None, {"x": x})
    result = SpecificationReference(load(saved(tmp_path, onnx_bytes))).activations(x.reshape(7, -1))[-1]
    assert result.dtype == np.int32
    assert result.tobytes() == np.asarray(expected).reshape(7, -1).tobytes()


def test_sums_that_float32_does_not_have_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_maps, "EXACT", 1000)
    with pytest.raises(RequestError, match=r"\(ConvInteger\): a sum can reach [\d,]+"):
        load(saved(tmp_path, integers(3, {})))
