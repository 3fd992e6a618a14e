"""Operators that compare and choose values."""

from __future__ import annotations

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node, Reader

COUNTED = (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.float32))


def _extremum(node: Node) -> Constants:
    """Read ArgMax or ArgMin: whether the last of equal values is chosen, and the numbers of the places.

    Over all codes or float32 values of a vector, kernels count the places and have no table.
    """
    last = np.array([node.attributes.get("select_last_index", 0)])
    if len(node.image) == 1 and node.input_dtype in COUNTED:
        return {"last": last}
    return {"last": last, **_ranked(node, node.attributes.get("axis", 0))}


def _ranked(node: Node, axis: int) -> Constants:
    size = (0, *node.image)[axis]
    return {"places": np.array([*range(size)], np.int32)}


def _with_indices(*names: str) -> Reader:
    """Return the reader of an operator of domain harness: its constant inputs, and the numbers of the places."""

    def read(node: Node) -> Constants:
        constants = {name: value.reshape(-1) for name, value in zip(names, node.inputs, strict=False)
                     if value is not None}  # fmt: skip
        data = node.inputs[0]
        size = node.image[1] if data is None else data.shape[2]
        front = np.array([*range(size)])
        dtype = node.input_dtype
        return {**constants, "places": front.astype(dtype), "places_from_end": (front - size).astype(dtype)}

    return read


def _suppression(node: Node) -> Constants:
    """Read the thresholds of a NonMaxSuppression, and the numbers of its boxes, columns and rows."""
    least = node.attributes.get("score_threshold", -np.inf)
    numbers = np.array([*range(max(node.image[1], *node.shape))], np.int32)
    iou = np.array([node.attributes.get("iou_threshold", 0)], np.float32)
    return {"numbers": numbers, "iou_threshold": iou, "score_threshold": np.array([least], np.float32)}


READERS: dict[str, Reader] = {
    "ArgMax": _extremum,
    "ArgMin": _extremum,
    "GatherElements": _with_indices("data", "index"),
    "NonMaxSuppression": _suppression,
    "ScatterElements": _with_indices("data", "index", "updates"),
    "TopK": lambda node: _ranked(node, node.attributes.get("axis", -1)),
}
