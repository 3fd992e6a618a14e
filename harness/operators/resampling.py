"""The attributes of Resize (ONNX): the shape of the output and the coordinates of its values in the input.

The coordinate of output i in the input, float32, each operation rounded (scale = scales, or size of y / size of x):

    asymmetric          i / scale
    half_pixel          (i + 0.5) / scale - 0.5               pytorch_half_pixel: the same, 0 if y has one value
    align_corners       i * (size of x - 1) / (size of y - 1), 0 if y has one value

The specification has scale * size of x in the place of size of y, which ONNX Runtime 1.31 rounds down: where this
changes a coordinate, a node is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.fault_models import Single
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, INT8, UINT8, Tensor

ATTRIBUTES: dict[str, Any] = {
    "antialias": 0, "axes": [], "coordinate_transformation_mode": b"half_pixel", "cubic_coeff_a": -0.75,
    "exclude_outside": 0, "extrapolation_value": 0.0, "keep_aspect_ratio_policy": b"stretch", "mode": b"nearest",
    "nearest_mode": b"round_prefer_floor",
}  # fmt: skip
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
POLICIES = {b"not_larger": min, b"not_smaller": max}
"""The choice of one scale from those of all axes, where sizes keep the aspect ratio."""
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, eq=False)
class Resampling:
    """The values that a node of Resize reads: `coordinates` are float32 (size of y,) for each axis of a vector."""

    source: Tensor
    linear: bool
    nearest_mode: str
    shape: tuple[int, ...]
    scales: tuple[np.float32, ...]
    coordinates: tuple[Single, ...]

    @classmethod
    def read(cls, node: Node) -> Resampling:
        """Read a node with constant scales or sizes; raise RequestError for other modes, and resized vectors."""
        node.require_inputs(1, 4)
        attributes = node.attributes(ATTRIBUTES)
        mode, coordinate, nearest = (
            attributes[name].decode(errors="replace")
            for name in ("mode", "coordinate_transformation_mode", "nearest_mode")
        )
        if mode not in ("nearest", "linear") or coordinate not in COORDINATES or nearest not in NEAREST:
            raise node.refusal(
                f"it is {mode}, {coordinate}, {nearest}",
                f"nearest or linear, {', '.join(COORDINATES)}, {', '.join(NEAREST)}",
            )
        unsupported = ("antialias", "exclude_outside")
        if any(attributes[name] != ATTRIBUTES[name] for name in unsupported):
            raise node.refusal(f"{', '.join(unsupported)}: one of them is given", "none of them")
        source = node.activation(0, [FLOAT32] if mode == "linear" else [UINT8, INT8, FLOAT32])
        shape, exact = sizes_and_scales(node, source, attributes)
        scales = tuple(map(np.float32, exact[1:]))
        if shape == source.shape and any(scale != 1 for scale in scales):
            raise node.refusal(
                f"the scales {[float(scale) for scale in scales]} leave the shape {shape}, so ONNX Runtime copies",
                "scales of 1, or another size",
            )
        if not node.has(3):
            for size, count, scale in zip(source.shape, shape, scales, strict=True):
                _require_specified(node, size, count, scale, coordinate)
        found = tuple(_coordinates(*each, coordinate) for each in zip(source.shape, shape, scales, strict=True))
        return cls(source, mode == "linear", nearest, shape, scales, found)


def sizes_and_scales(
    node: Node, source: Tensor, attributes: Mapping[str, Any]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the shape of the output and the scale of each axis, 1 of that of the vectors; refuse others of it."""
    rank, at, axes = 1 + len(source.shape), 3 if node.has(3) else 2, list(attributes["axes"])
    if not node.has(at) or (at == 3 and node.has(2) and node.constant(2, "scales", [FLOAT32]).size):
        raise node.refusal("it has both scales and sizes, or none", "one of them, constant")
    given = node.constant(at, "sizes" if at == 3 else "scales", [np.dtype(np.int64) if at == 3 else FLOAT32])
    axes = axes or list(range(rank))
    if given.shape != (len(axes),) or not all(-rank <= axis < rank for axis in axes):
        raise node.refusal(f"it has {given.size} scales or sizes", f"one for each of {len(axes)} axes")
    axes = [axis % rank for axis in axes]
    if at == 3 and 0 in axes:
        raise node.refusal("its sizes state the number of vectors, which is free", "scales, or axes without the first")
    shape, scales = [1, *source.shape], [1.0] * rank
    before = [shape[axis] for axis in axes]
    policy = attributes["keep_aspect_ratio_policy"]
    resized = _of_sizes(before, given, policy) if at == 3 else _of_scales(node, before, given)
    for axis, (count, scale) in zip(axes, resized, strict=True):
        shape[axis], scales[axis] = count, scale
    if scales[0] != 1:
        raise node.refusal("it resizes the first axis, the vectors", "a scale of 1 there, or axes without it")
    if min(shape) < 1:
        raise node.refusal(f"the output has shape {tuple(shape[1:])}", "sizes of 1 or more")
    return tuple(shape[1:]), tuple(scales)


def _of_sizes(before: list[int], sizes: Array, policy: bytes) -> Iterator[tuple[int, float]]:
    """Yield size and scale of each axis for the sizes that a node states."""
    scales = [float(size) / old for size, old in zip(sizes, before, strict=True)]
    for size, scale, old in zip(sizes, scales, before, strict=True):
        joint = POLICIES[policy](scales) if policy in POLICIES else scale
        yield int(old * joint + 0.5) if policy in POLICIES else int(size), joint


def _of_scales(node: Node, before: list[int], scales: Array) -> Iterator[tuple[int, float]]:
    """Yield size and scale of each axis for the scales that a node states."""
    for size, value in zip(before, scales, strict=True):
        if not (np.isfinite(value) and value > 0):
            raise node.refusal(f"a scale is {value}", "positive, finite numbers")
        count = int(np.floor(np.float32(size) * value))
        if count != int(size * float(value)):
            raise node.refusal(
                f"{size} * {value} is {count} only if it is rounded to float32", "sizes in place of scales"
            )
        yield count, float(value)


def _require_specified(node: Node, size: int, count: int, scale: np.float32, mode: str) -> None:
    """Refuse a scale that gives no whole size, if a coordinate depends on that size."""
    depends = {"align_corners": count > 1, "pytorch_half_pixel": count == 1}
    if depends.get(mode) and size * float(scale) != count:
        raise node.refusal(
            f"{mode} of {size} values by the scale {scale}: ONNX Runtime takes {count} values for the size, the "
            f"specification {size * float(scale):g}",
            "sizes in place of scales, or scales with whole sizes",
        )


def _coordinates(size: int, count: int, scale: np.float32, mode: str) -> Single:
    """Return the coordinates in the input of size `size` of the `count` values of the output, in float32."""
    i, half = np.arange(count, dtype=np.float32), np.float32(0.5)
    if mode == "align_corners":
        return i * np.float32(size - 1) / np.float32(count - 1) if count > 1 else i * 0
    if mode == "asymmetric":
        return i / scale
    return i * 0 if mode == "pytorch_half_pixel" and count == 1 else (i + half) / scale - half
