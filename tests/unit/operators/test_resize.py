"""Resize against ONNX Runtime: nearest byte for byte, linear within its bound; refusals, wrong variants."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.resize import Resize
from harness.operators.resize_linear import ResizeLinear
from tests.support.codes import COUNTS, assert_agree_at_random, layer_of, model_of, node, runtime, specified
from tests.support.floats import assert_within, numbers, outside, read_node

COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def random_sizes(rng: np.random.Generator, shape: list[int]) -> dict[str, Array]:
    """Scales or sizes of the axes after the channels."""
    if rng.random() < 0.5:
        scales = rng.choice(np.float32([0.5, 0.6, 1, 1.3, 1.5, 2, 2.6, 3]), len(shape) - 1)
        return {"scales": np.append(np.float32([1, 1]), scales).astype(np.float32)}
    return {"sizes": rng.integers(1, 12, len(shape) - 1)}


def resized(rng: np.random.Generator, mode: str) -> None:
    axes = 2 if mode == "linear" else int(rng.integers(1, 3))
    shape = [int(rng.integers(1, 4)), *rng.integers(1, 7, axes).tolist()]
    given = random_sizes(rng, shape)
    names = ["x", "", "scales"] if "scales" in given else ["x", "", "", "sizes"]
    attributes: dict[str, Any] = {"coordinate_transformation_mode": str(rng.choice(COORDINATES)), "mode": mode}
    if "sizes" in given:
        attributes["axes"] = list(range(2, 2 + axes)) if rng.random() < 0.5 else list(range(-axes, 0))
    if mode == "nearest":
        attributes["nearest_mode"] = str(rng.choice(NEAREST))
    layer = assert_within(node("Resize", *names, **attributes), given, {"x": numbers(rng, 6, *shape)}, evaluator=False)
    after, exact = (
        [int(size * kind(scale)) for size, scale in zip(shape, given.get("scales", [])[1:], strict=False)]
        for kind in (np.float32, float)
    )
    copied = after == shape and bool((given["scales"] != 1).any())
    assert (layer is None) == (0 in after or copied or after != exact or unspecified(shape[1:], given, attributes))


def unspecified(shape: list[int], given: dict[str, Array], attributes: dict[str, Any]) -> bool:
    """Return whether a coordinate depends on a size that is not whole."""
    mode, sizes = attributes["coordinate_transformation_mode"], shape
    if "scales" not in given:
        return False
    exact = [size * float(scale) for size, scale in zip(sizes, given["scales"][2:], strict=True)]
    one = mode == "pytorch_half_pixel"
    return mode in ("align_corners", "pytorch_half_pixel") and any(
        size != int(size) and (int(size) == 1) == one for size in exact
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_random_configurations_agree(mode: str, count: int) -> None:
    assert_agree_at_random(lambda rng: resized(rng, mode), count)


@pytest.mark.parametrize("coordinate", COORDINATES)
@pytest.mark.parametrize("mode", [*NEAREST, "linear"])
def test_the_evaluator_agrees_where_its_coordinates_are_exact(mode: str, coordinate: str) -> None:
    kind: dict[str, Any] = {"mode": "linear"} if mode == "linear" else {"nearest_mode": mode}
    proto = node("Resize", "x", "", "", "sizes", coordinate_transformation_mode=coordinate, axes=[2, 3], **kind)
    x = np.random.default_rng(3).normal(0, 1, (1, 2, 4, 6)).astype(np.float32)
    for size in [(7, 11), (13, 6), (2, 21)] if coordinate == "align_corners" else [(8, 3), (1, 24), (4, 12)]:
        given = {"sizes": np.array(size)}
        layer = layer_of(proto, given, {"x": x})
        found = ReferenceEvaluator(model_of(proto, given, {"x": x})).run(None, {"x": x})[0].reshape(1, -1)
        output = specified(layer, {"x": x})
        tolerance = layer.tolerance([x.reshape(1, -1)], output)
        assert not outside(found, output, np.zeros_like(output) if tolerance is None else tolerance).any(), size


X = np.random.default_rng(0).normal(0, 1, (30, 2, 4, 5)).astype(np.float32)
SCALES = {"scales": np.float32([1, 1, 1.7, 2.3])}
PLACES: dict[str, list[int]] = {
    "asymmetric": [0, 0, 1, 1, 2, 2, 2],
    "half_pixel": [0, 0, 0, 1, 1, 2, 2],
}


def test_nearest_values_at_halves() -> None:
    x = np.arange(3, dtype=np.float32).reshape(1, 1, 3)
    given = {"scales": np.float32([1, 1, 2.5])}
    for mode, expected in PLACES.items():
        proto = node(
            "Resize", "x", "", "scales", coordinate_transformation_mode=mode, nearest_mode="round_prefer_floor"
        )
        layer = layer_of(proto, given, {"x": x})
        assert specified(layer, {"x": x}).tolist() == runtime(proto, given, {"x": x}).reshape(1, -1).tolist()
        assert specified(layer, {"x": x})[0].tolist() == expected


def test_whole_copies_need_no_table() -> None:
    x = X[:, :, :2, :2]
    for scales, is_table in (([1, 1, 2, 3], False), ([1, 1, 1, 1], False), ([1, 1, 1.5, 2], True)):
        proto = node("Resize", "x", "", "scales", nearest_mode="floor", coordinate_transformation_mode="asymmetric")
        layer = layer_of(proto, {"scales": np.float32(scales)}, {"x": x})
        assert isinstance(layer, Resize)
        assert (layer.order.steps is None) == is_table


def test_linear_is_first_between_columns_then_between_rows() -> None:
    proto = node("Resize", "x", "", "scales", mode="linear", coordinate_transformation_mode="asymmetric")
    given = {"scales": np.float32([1, 1, 2, 4])}
    layer = layer_of(proto, given, {"x": X})
    right = specified(layer, {"x": X}).reshape(30, 2, 8, 20)
    half, quarter = np.float32(0.5), np.float32(0.25)
    sides = [X[:, :, row, 1] * (1 - quarter) + X[:, :, row, 2] * quarter for row in (2, 3)]
    assert right[:, :, 5, 5].tobytes() == (sides[0] * half + sides[1] * half).tobytes()
    assert right[:, :, ::2, ::4].tobytes() == X.tobytes()
    found = runtime(proto, given, {"x": X})
    assert 0 < (found != right).sum() < right.size  # another order


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_every_fault_model_changes_some_values(mode: str) -> None:
    layer = layer_of(node("Resize", "x", "", "scales", mode=mode), SCALES, {"x": X})
    right, causes = specified(layer, {"x": X}), []
    for model in layer.fault_models(X.reshape(30, -1)):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert model.output.tobytes() != right.tobytes() or "subnormal" in model.cause, model.cause
        causes.append(model.cause)
    assert len(causes) == len(set(causes)) >= 4
    assert mode == "nearest" or {*ResizeLinear.alternatives} < {*causes}


REFUSED: dict[str, tuple[list[str], dict[str, Any], dict[str, Any], str, str]] = {
    "vectors": (["scales"], {"scales": np.float32([2, 1, 1, 1])}, {}, "resizes the first axis", "scale of 1"),
    "channels": (["scales"], {"scales": np.float32([1, 2, 1, 1])}, {"mode": "linear"}, "resizes", "images"),
    "cubic": (["scales"], SCALES, {"mode": "cubic"}, "it is cubic", "nearest or linear"),
    "antialias": (["scales"], SCALES, {"mode": "linear", "antialias": 1}, "antialias", "none of them"),
    "both": (["scales", "sizes"], SCALES | {"sizes": np.array([1, 2, 3, 4])}, {}, "both", "one of them"),
    "a copy": (["scales"], {"scales": np.float32([1, 1, 1.1, 1])}, {}, "so ONNX Runtime copies", "another size"),
    "number of vectors": (["", "sizes"], {"sizes": np.array([30, 2, 8, 9])}, {}, "number of vectors", "axes without"),
    "rounded size": (["scales"], {"scales": np.float32([1, 1, 1, 2.6])}, {}, r"5 \* 2.59.* is 13 only if", "sizes"),
    "no whole size": (
        ["scales"],
        {"scales": np.float32([1, 1, 1, 0.5])},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        r"align_corners of 5 values by the scale 0.5: ONNX Runtime takes 2 .* specification 2.5",
        "sizes in place of scales",
    ),
    "no whole size, one value": (
        ["scales"],
        {"scales": np.float32([1, 1, 0.375, 1])},
        {"coordinate_transformation_mode": "pytorch_half_pixel"},
        "pytorch_half_pixel of 4 values by the scale 0.375: ONNX Runtime takes 1",
        "whole sizes",
    ),
    "few": (["scales"], {"scales": np.float32([1, 2])}, {}, "it has 2 scales", "one for each of 4 axes"),
    "computed": (["x"], {}, {}, "scales, 'x', is not constant", "initializer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    names, given, attributes, message, hint = REFUSED[case]
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        read_node(node("Resize", "x", "", *names, **attributes), given, {"x": X})
    assert re.search(hint, caught.value.hint)
