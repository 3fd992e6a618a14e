"""The detector of `networks.py` with the selection of its boxes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from models.families import networks

SIDE = 32
"""Pixels of a side of the image."""
ANCHORS, NUMBERS, CLASSES = 3, 9, 4
"""Boxes of a cell, the numbers of each (4 of the box, a confidence and one for each class), and classes."""
MOST = 8
"""Boxes that are selected in each class at most."""


def selecting_detector() -> onnx.ModelProto:
    """Return the detector with its 240 boxes in pixels, centre and size, and rows of the best ones of each class."""
    build, model = networks.Builder(), networks.detector()
    build.nodes, build.constants = [*model.graph.node], [*model.graph.initializer]
    rows, places, sizes = [], [], []
    for head, cells in zip(model.graph.output, (8, 4), strict=True):
        count, step = ANCHORS * cells * cells, SIDE / cells
        anchors = build.reshape(head.name, ANCHORS, NUMBERS, cells * cells)
        rows.append(build.reshape(build.add("Transpose", anchors, perm=[0, 1, 3, 2]), count, NUMBERS))
        down, right = np.divmod(np.arange(cells * cells), cells)
        places.append(np.tile(np.stack([right, down], axis=1) * step, (ANCHORS, 1)))
        sizes.append(np.repeat([[step], [2 * step], [3 * step]], cells * cells, axis=0))
    values = build.add("Concat", *rows, axis=1)
    centre, size, confidence, classes = (
        build.add("Gather", values, build.constant(numbers, np.int64), axis=2)
        for numbers in ([0, 1], [2, 3], [4], [5, 6, 7, 8])
    )
    offset = build.add("Mul", centre, build.constant(SIDE / 4))
    in_pixels = build.add("Add", offset, build.constant(np.concatenate(places)))
    boxes = build.add("Concat", in_pixels, build.add("Mul", size, build.constant(np.concatenate(sizes))), axis=2)
    scores = build.add("Transpose", build.add("Mul", confidence, classes), perm=[0, 2, 1])
    limits = build.constant([MOST], np.int64), build.constant([0.45]), build.constant([0.25])
    selected = build.add("NonMaxSuppression", boxes, scores, *limits, center_point_box=1)
    count = sum(len(part) for part in places)
    network = build.model("yolo_nms_tiny", (3, SIDE, SIDE), {boxes: [count, 4], scores: [CLASSES, count]})
    rows_of_classes = helper.make_tensor_value_info(selected, TensorProto.INT64, ["rows", 3])
    network.graph.output.append(rows_of_classes)
    files = b"".join(Path(file).read_bytes() for file in (__file__, networks.__file__))
    [recipe] = [entry for entry in network.metadata_props if entry.key == "recipe_sha256"]
    recipe.value = json.dumps(hashlib.sha256(files).hexdigest())
    onnx.checker.check_model(network)
    return network


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {**networks.NETWORKS, "yolo_nms_tiny": selecting_detector}
"""All networks of this recipe by name."""
