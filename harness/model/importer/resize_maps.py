"""Nodes that map an activation by constant matrices, and the matrices of Resize (ONNX), linear and cubic.

A row of a matrix of Resize has the weights of the values near one coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.model.importer.replacement import Replacement
from harness.operators.node import Node
from harness.operators.resampling import ATTRIBUTES, sizes_and_scales
from harness.operators.tensor import FLOAT32

LARGEST = 1 << 24
"""Entries of a matrix."""
Matrix: TypeAlias = npt.NDArray[np.float64]


@dataclass(eq=False)
class Maps:
    """Nodes that map an activation `tensor`, one after the other; `shape` is that of one vector of the last result.

    `count` is the first size of the file, the number of vectors; 0 if it is free.
    """

    to: Replacement
    node: Node
    tensor: str
    shape: tuple[int, ...]
    count: int

    def add(self, operator: str, *inputs: str, **attributes: Any) -> None:
        """Add a node; an empty name among its inputs is the last result."""
        self.tensor = self.to.add(operator, [tensor or self.tensor for tensor in inputs], **attributes)

    def reshape(self, *shape: int) -> None:
        """Give a vector another shape."""
        self.add("Reshape", "", self.to.constant([0, *shape]))
        self.shape = shape

    def exchange(self, axis: int, other: int) -> None:
        """Exchange two axes of a vector."""
        order = list(range(len(self.shape)))
        order[axis], order[other] = other, axis
        if axis != other:
            self.add("Transpose", "", perm=[0, *(1 + place for place in order)])
            self.shape = tuple(self.shape[place] for place in order)

    def along(self, axis: int, matrix: Matrix) -> None:
        """Multiply the values along an axis of a vector by a matrix, (values of the result, values)."""
        if matrix.size > LARGEST:
            raise self.node.refusal(f"its matrix has {matrix.size:,} entries", f"at most {LARGEST:,}")
        last = len(self.shape) - 1
        if axis == last - 1:
            self.add("MatMul", self.to.constant(matrix, np.float32), "")
        else:
            self.exchange(axis, last)
            self.add("MatMul", "", self.to.constant(matrix.T, np.float32))
        shape = list(self.shape)
        shape[axis if axis == last - 1 else last] = len(matrix)
        self.shape = tuple(shape)
        if axis < last - 1:
            self.exchange(axis, last)


def resize(node: Node, maps: Maps) -> None:
    """Add the matrices of Resize; a place outside the box of `roi` has the extrapolation value."""
    attributes = node.attributes(ATTRIBUTES)
    texts = {name: value.decode() for name, value in attributes.items() if isinstance(value, bytes)}
    if texts["mode"] not in SUPPORTS or texts["coordinate_transformation_mode"] not in COORDINATES:
        raise node.refusal(f"it is {texts['mode']}", f"{', '.join(SUPPORTS)}, {', '.join(COORDINATES)}")
    source = node.activation(0, [FLOAT32])
    boxes = _boxes(node, attributes, 1 + len(source.shape))
    sizes = node.constants.get(node.inputs[3], np.zeros(0)) if node.has(3) else np.zeros(0)
    if not attributes["axes"] and len(sizes) == len(boxes) and sizes[0] == maps.count:
        attributes["axes"] = list(range(1, len(boxes)))
        node = replace(node, constants={**node.constants, node.inputs[3]: sizes[1:]})
    shape, scales = sizes_and_scales(node, source, attributes)
    outside = np.zeros(shape, np.bool_)
    for axis, (size, count, scale) in enumerate(zip(source.shape, shape, scales[1:], strict=True)):
        box = boxes[axis + 1]
        if (size, scale) != (count, 1) or box != WHOLE:
            resized = Resized(size, count, scale, box)
            at = COORDINATES[texts["coordinate_transformation_mode"]](resized)
            beyond = ((at < 0) | (at > size - 1)) & (texts["coordinate_transformation_mode"] == CROPPING)
            maps.along(axis, np.where(beyond[:, None], 0, _weights(resized, at, texts["mode"], attributes)))
            outside |= beyond.reshape(-1, *(1,) * (len(shape) - 1 - axis))
    if outside.any():
        maps.add("Add", "", maps.to.constant(np.where(outside, attributes["extrapolation_value"], 0), np.float32))


WHOLE = (0.0, 1.0)
CROPPING = "tf_crop_and_resize"


@dataclass(frozen=True)
class Resized:
    """An axis of `size` values that gets `count`; `box` is the part of it that is read, from 0 to 1."""

    size: int
    count: int
    scale: float
    box: tuple[float, float]

    @property
    def width(self) -> float:
        """The size of the result before it is rounded."""
        return self.scale * self.size

    @property
    def numbers(self) -> Matrix:
        """The numbers of the results, from 0 on."""
        return np.arange(self.count, dtype=np.float64)


def _half_pixel(axis: Resized) -> Matrix:
    return (axis.numbers + 0.5) / axis.scale - 0.5


def _symmetric(axis: Resized) -> Matrix:
    return axis.size / 2 * (1 - axis.count / axis.width) + _half_pixel(axis)


def _aligned(axis: Resized) -> Matrix:
    return axis.numbers * 0 if axis.width == 1 else axis.numbers * (axis.size - 1) / (axis.width - 1)


def _cropped(axis: Resized) -> Matrix:
    first, last = axis.box
    if axis.width == 1:
        return axis.numbers * 0 + (first + last) / 2 * (axis.size - 1)
    return _aligned(axis) * (last - first) + first * (axis.size - 1)


COORDINATES: Mapping[str, Callable[[Resized], Matrix]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis: _half_pixel(axis) if axis.width != 1 else axis.numbers * 0,
    "align_corners": _aligned,
    "asymmetric": lambda axis: axis.numbers / axis.scale,
    CROPPING: _cropped,
}
"""The coordinates in the input of all values of the result, as ONNX states them."""
SUPPORTS = {"linear": 1, "cubic": 2}
"""The distance from which on a value has no weight."""


def _boxes(node: Node, attributes: Mapping[str, Any], rank: int) -> list[tuple[float, float]]:
    """Return the part of each axis that is read."""
    boxes = [WHOLE] * rank
    if attributes["coordinate_transformation_mode"] != CROPPING.encode():
        return boxes
    axes = list(attributes["axes"]) or list(range(rank))
    roi = node.constant(1, "roi", [FLOAT32]).astype(np.float64)
    if roi.shape != (2 * len(axes),):
        raise node.refusal(f"roi has {roi.size} numbers", f"{2 * len(axes)}: all begins, then all ends")
    for axis, first, last in zip(axes, roi[: len(axes)], roi[len(axes) :], strict=True):
        boxes[axis % rank] = (float(first), float(last))
    return boxes


def _weights(axis: Resized, at: Matrix, mode: str, attributes: Mapping[str, Any]) -> Matrix:
    """Return the matrix of the values near the coordinates: (count, size)."""
    support, narrow = SUPPORTS[mode], min(axis.scale, 1.0) if attributes["antialias"] else 1.0
    first = math.floor(-support / narrow) + 1
    places = np.ceil(at)[:, None] - 1 + np.arange(first, 2 - first)
    distance = np.abs(at[:, None] - places) * narrow
    weights = 1 - distance if mode == "linear" else _cubic(distance, attributes["cubic_coeff_a"])
    weights = np.where(distance < support, weights, 0)
    if attributes["exclude_outside"]:
        weights = np.where((places >= 0) & (places < axis.size), weights, 0)
    if attributes["exclude_outside"] or attributes["antialias"]:
        weights = weights / weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((axis.count, axis.size))
    rows = np.arange(axis.count)[:, None]
    np.add.at(matrix, (rows, np.clip(places, 0, axis.size - 1).astype(np.intp)), weights)
    return matrix


def _cubic(x: Matrix, a: float) -> Matrix:
    """Return the weights of cubic convolution for distances below 2."""
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    return np.where(x <= 1, inner, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a)
