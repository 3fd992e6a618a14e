"""Poolings and other windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node, Reader, integers, no_constants, row
from harness.core.arrays import Array


def explicit_windows(
    attributes: Mapping[str, Any], kernel: list[int], image: tuple[int, ...], output: tuple[int, ...]
) -> dict[str, list[int]]:
    """Return the attributes of windows, with the numbers of padding in the place of auto_pad."""
    how, axes = attributes.get("auto_pad", b"NOTSET"), len(kernel)
    strides, dilations = (list(attributes.get(name, [1] * axes)) for name in ("strides", "dilations"))
    pads = list(attributes.get("pads", [0] * (2 * axes)))
    if how != b"NOTSET":
        sizes = zip(output[1:], strides, kernel, dilations, image[1:], strict=True)
        room = [max((count - 1) * stride + (size - 1) * step + 1 - length, 0)
                for count, stride, size, step, length in sizes]  # fmt: skip
        before = [{b"SAME_UPPER": each // 2, b"SAME_LOWER": each - each // 2}.get(how, 0) for each in room]
        pads = [*before, *(all_ - each for all_, each in zip(room, before, strict=True))]
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}


def counts(attributes: Mapping[str, Any], image: tuple[int, ...], output: tuple[int, ...]) -> Array:
    """Return the divisors of AveragePool, one a window: values in the image, with count_include_pad in its padding."""
    kernel, strides, dilations, pads = (attributes[name] for name in ("kernel_shape", "strides", "dilations", "pads"))
    axes = len(kernel)
    include = bool(attributes.get("count_include_pad", 0))
    values = np.ones(1, np.float32)
    for axis in range(axes):
        low, high = -include * pads[axis], image[1 + axis] + include * pads[axes + axis]
        begins = np.arange(output[1 + axis])[:, None] * strides[axis] - pads[axis]
        at = begins + np.arange(kernel[axis]) * dilations[axis]
        values = np.outer(values, ((at >= low) & (at < high)).sum(axis=1)).reshape(-1)
    return values.astype(np.float32)


def _counted(node: Node) -> Constants:
    return {"count": counts(node.attributes, node.image, node.shape)}


def _lrn(node: Node) -> Constants:
    """Read LRN: alpha / size, and the bias."""
    alpha, bias = (np.float32(node.attributes.get(name, value)) for name, value in (("alpha", 1e-4), ("bias", 1.0)))
    return {"factor": np.array([alpha / np.float32(node.attributes["size"])]), "bias": np.array([bias])}


def _global_mean(node: Node) -> Constants:
    """Read QLinearGlobalAveragePool: x, x_scale, x_zero_point, y_scale, y_zero_point."""
    _, x_scale, x_zero_point, y_scale, y_zero_point, *_ = node.inputs
    return {
        "input_zero_point": integers(x_zero_point),
        "multiplier": row(x_scale) / (row(y_scale) * np.float32(math.prod(node.image[1:]))),
        "output_zero_point": integers(y_zero_point),
    }


def _mean(node: Node) -> Constants:
    """Read QLinearAveragePool; ONNX Runtime computes a window of the whole image as QLinearGlobalAveragePool."""
    whole = node.attributes["kernel_shape"] == list(node.image[1:])
    if whole and math.prod(node.shape[1:]) == 1 and not any(node.attributes["pads"]):
        return _global_mean(node)
    _, x_scale, x_zero_point, y_scale, y_zero_point, *_ = node.inputs
    return {
        "input_step": row(x_scale),
        "input_zero_point": integers(x_zero_point),
        "output_step": row(y_scale),
        "output_zero_point": integers(y_zero_point),
    }


READERS: dict[str, Reader] = {
    "AveragePool": _counted,
    "GlobalLpPool": no_constants,
    "GlobalMaxPool": no_constants,
    "LRN": _lrn,
    "LpPool": no_constants,
    "MaxPool": no_constants,
    "QLinearAveragePool": _mean,
    "QLinearGlobalAveragePool": _global_mean,
}
