"""NonMaxSuppression against ONNX Runtime, which computes its function: rows, ties, faults, refusals, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.base import Layer
from harness.operators.non_max_suppression import NonMaxSuppression
from tests.support.codes import assert_agree_at_random
from tests.unit.operators.test_selections import in_runtime, layer_of, of_harness, rows

SCORES = (-np.inf, -1, 0, 0.25, 2)
ATTRIBUTES = {"max_output_boxes_per_class": 2, "iou_threshold": 0.5, "score_threshold": 0.0}


def random_case(rng: np.random.Generator) -> tuple[dict[str, Array], dict[str, Any]]:
    """Boxes of which many overlap and some are empty or flipped, and scores of which many are equal."""
    vectors, batches, classes, boxes = (int(size) for size in rng.integers(1, [5, 3, 4, 8]))
    corners = rng.integers(-4, 8, (vectors, batches, boxes, 4))
    small = rng.standard_normal(corners.shape)
    inputs = {
        "boxes": np.where(rng.random() < 0.5, corners, small).astype(np.float32),
        "scores": rng.integers(-2, 5, (vectors, batches, classes, boxes)).astype(np.float32) / 4,
    }
    attributes = {
        "center_point_box": int(rng.integers(2)),
        "max_output_boxes_per_class": int(rng.integers(1, boxes + 2)),
        "iou_threshold": float(np.float32(rng.choice([0, 0.1, 0.3, 0.5, 1]))),
        "score_threshold": float(rng.choice(SCORES)),
    }
    return inputs, attributes


def agree(rng: np.random.Generator) -> None:
    inputs, attributes = random_case(rng)
    proto = of_harness("NonMaxSuppression", "boxes", "scores", **attributes)
    layer = layer_of(proto, {}, inputs)
    assert isinstance(layer, NonMaxSuppression)
    result, right = layer.prepare()(*rows(inputs, layer)), in_runtime(proto, {}, inputs)
    assert right.dtype == result.dtype
    assert right.shape[1:] == layer.output.shape
    assert np.array_equal(right.reshape(result.shape), result)
    integers = layer.in_integers(rows(inputs, layer))
    assert integers is not None
    assert integers.tobytes() == result[: len(integers)].tobytes()
    low, high = layer.errors.output_bounds([], [])
    assert ((low <= result) & (result <= high)).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, pytest.param(600, marks=pytest.mark.campaign)])
def test_rows_are_those_of_onnx_runtime(count: int) -> None:
    assert_agree_at_random(agree, count)


def test_the_lower_index_is_first_and_missing_rows_are_minus_one() -> None:
    boxes = np.float32([[0, 0, 1, 1], [5, 5, 6, 6], [5, 5, 6, 6.5], [9, 9, 8, 8]]).reshape(1, 1, 4, 4)
    scores = np.float32([[0.5, 0.5, 0.75, -1], [0, 0, 0, 0.5]]).reshape(1, 1, 2, 4)
    inputs = {"boxes": boxes, "scores": scores}
    layer = layer_of(of_harness("NonMaxSuppression", *inputs, **ATTRIBUTES | {"score_threshold": 0.0}), {}, inputs)
    y = layer.prepare()(*rows(inputs, layer)).reshape(4, 3)
    assert y.tolist() == [[0, 0, 2], [0, 0, 0], [0, 1, 3], [-1, -1, -1]]


def faulty(*, is_centre: bool) -> tuple[Layer, dict[str, Array]]:
    """A layer and inputs for which its faults are visible."""
    rng = np.random.default_rng(3)
    shape = (400, 2, 5, 4)
    inputs = {
        "boxes": rng.integers(1, 9, shape).astype(np.float32) + rng.choice([0, 0.25], shape).astype(np.float32),
        "scores": rng.integers(-1, 4, (400, 2, 2, 5)).astype(np.float32) / 4,
    }
    proto = of_harness("NonMaxSuppression", *inputs, center_point_box=int(is_centre), **ATTRIBUTES)
    return layer_of(proto, {}, inputs), inputs


@pytest.mark.slow
@pytest.mark.parametrize("is_centre", [False, True])
def test_fault_models_change_some_values(*, is_centre: bool) -> None:
    layer, inputs = faulty(is_centre=is_centre)
    right = layer.prepare()(*rows(inputs, layer))
    same = [model.cause for model in layer.fault_models(*rows(inputs, layer)) if (model.output == right).all()]
    # Of two equal numbers either one is the larger; a box of some area overlaps itself; quotients differ in last bits.
    invisible = (
        "includes equality",
        "is divided by 1 /",
        "is multiplied by 1 /",
        "numbers[i] == box[b, c] is left out",
    )
    assert [cause for cause in same if not any(text in cause for text in invisible)] == []
    assert len(list(layer.fault_models(*rows(inputs, layer)))) > 3 * len(same)


@pytest.mark.parametrize(
    ("attributes", "shape", "message"),
    [
        ({"max_output_boxes_per_class": 0}, (1, 2, 3, 4), "max_output_boxes_per_class is 0"),
        ({"iou_threshold": 1.5}, (1, 2, 3, 4), "iou_threshold 1.5"),
        ({"score_threshold": np.nan}, (1, 2, 3, 4), "score_threshold nan"),
        ({}, (1, 2, 3, 5), "boxes and scores have shapes (2, 3, 5) and (2, 1, 3)"),
        ({}, (1, 2, 4, 4), "boxes and scores have shapes (2, 4, 4) and (2, 1, 3)"),
    ],
)
def test_refusal_names_what_is_wrong(attributes: dict[str, Any], shape: tuple[int, ...], message: str) -> None:
    inputs = {"boxes": np.ones(shape, np.float32), "scores": np.ones((1, 2, 1, 3), np.float32)}
    with pytest.raises(RequestError) as caught:
        layer_of(of_harness("NonMaxSuppression", *inputs, **ATTRIBUTES | attributes), {}, inputs)
    assert message in caught.value.message
