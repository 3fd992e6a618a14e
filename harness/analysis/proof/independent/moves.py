"""Operators that move values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node, Reader, no_constants, row
from harness.core.arrays import Array


def _padding(node: Node) -> Constants:
    """Read Pad: data, pads, its constant, 0 if it is not given; none for modes that take values of the input."""
    if node.attributes.get("mode", b"constant") != b"constant":
        return {}
    value = node.inputs[2]
    return {"value": np.zeros(1, node.dtype) if value is None else row(value)}


def _resized(node: Node) -> Constants:
    """Read Resize: the places, if they are no copies of each value; of linear ones both places and factors."""
    attributes, image, output = node.attributes, node.image, node.shape
    rank, axes = 1 + len(image), list(attributes.get("axes", ()))
    scales = [np.float32(after) / np.float32(before) for after, before in zip(output, image, strict=True)]
    if node.inputs[2] is not None and node.inputs[2].size:
        for axis, scale in zip(axes or range(rank), node.inputs[2], strict=True):
            if axis % rank:
                scales[axis % rank - 1] = scale
    mode = attributes.get("coordinate_transformation_mode", b"half_pixel")
    coordinates = [_source(*axis, mode) for axis in zip(image, output, scales, strict=True)]
    if attributes.get("mode", b"nearest") == b"linear":
        inside = [
            np.minimum(np.maximum(at, 0), size - 1).astype(np.float32)
            for at, size in zip(coordinates[1:], image[1:], strict=True)
        ]
        low = [np.floor(at) for at in inside]
        rows, columns = (
            np.array([below, np.minimum(below + 1, size - 1)], np.int32)
            for below, size in zip(low, image[1:], strict=True)
        )
        down, right = (
            np.array([1 - (at - below), at - below], np.float32) for at, below in zip(inside, low, strict=True)
        )
        return {"rows": rows, "columns_of_x": columns, "down": down, "right": right}
    rounding: dict[bytes, Callable[[Array], Array]] = {
        b"floor": np.floor,
        b"ceil": np.ceil,
        b"round_prefer_ceil": lambda at: np.floor(at.astype(np.float64) + 0.5),
        b"round_prefer_floor": lambda at: np.ceil(at.astype(np.float64) - 0.5),
    }
    rounded = rounding[attributes.get("nearest_mode", b"round_prefer_floor")]
    numbers = np.zeros(1, np.int64)
    for at, size, scale in zip(coordinates, image, scales, strict=True):
        index = np.arange(size) if len(at) == size and scale == 1 else np.clip(rounded(at), 0, size - 1)
        numbers = (numbers[:, None] * size + index.astype(np.int64)).reshape(-1)
    copies = np.arange(math.prod(image)).reshape(image)
    for axis, (after, before) in enumerate(zip(output, image, strict=True)):
        copies = copies.repeat(after // before, axis)
    return {} if np.array_equal(copies.reshape(-1), numbers) else {"places": numbers.astype(np.int32)}


def _source(size: int, count: int, scale: np.float32, mode: bytes) -> Array:
    """Return the coordinates of `count` values along an axis of `size`, float32 (ONNX Resize)."""
    i, half = np.arange(count, dtype=np.float32), np.float32(0.5)
    if count == 1 and mode in (b"align_corners", b"pytorch_half_pixel"):
        return np.zeros(1, np.float32)
    if mode == b"align_corners":
        return i * np.float32(size - 1) / np.float32(count - 1)
    return i / scale if mode == b"asymmetric" else (i + half) / scale - half


def _gathered(node: Node) -> Constants:
    """Read Gather: which value of the input each of the output is, (N,), if there are several indices."""
    indices = np.asarray(node.inputs[1])
    if indices.size == 1:
        return {}
    numbers = np.arange(math.prod(node.image), dtype=np.int32).reshape(1, *node.image)
    return {"places": np.take(numbers, indices, node.attributes.get("axis", 0)).reshape(-1)}


def _frames(node: Node) -> Constants:
    """Read Delay: the value of frames before a stream."""
    return {"value": row(np.array(node.attributes["value"], node.dtype))}


WITHOUT_CONSTANTS = (
    "Concat", "DepthToSpace", "Expand", "Flatten", "Identity", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze",
    "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
READERS: dict[str, Reader] = {
    **dict.fromkeys(WITHOUT_CONSTANTS, no_constants),
    "Delay": _frames,
    "Gather": _gathered,
    "Pad": _padding,
    "Resize": _resized,
}
