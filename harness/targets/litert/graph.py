"""The TFLite graph of some layers under construction, and how activations lie in its tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.model.tflite.file import OperatorCall, Scales, TensorValue, TfliteFile
from harness.operators.codes import Affine
from harness.operators.tensor import Tensor

FLOAT, INT8, INT32, INT64 = (np.dtype(name) for name in ("float32", "int8", "int32", "int64"))
UNSIGNED_OFFSET = 128
"""Codes of uint8 are stored less 128: XNNPACK is exact for int8 on all processors, for uint8 on some."""
PLAIN = {"fusedActivationFunction": 0}
"""Options of an operator without a function behind it (ActivationFunctionType)."""
SAME, VALID = 0, 1
"""Padding of the schema."""


@dataclass(frozen=True)
class Value:
    """An activation in a tensor of the file.

    `image` is (channels, height, width) if the values are stored with the channels last, row by row; None if they have
    the order of ONNX.  A code is the stored number plus `offset`.
    """

    tensor: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    image: tuple[int, ...] | None = None
    offset: int = 0

    @property
    def size(self) -> int:
        """The number of values of one vector."""
        return math.prod(self.shape)

    def places(self) -> Array:
        """Return the place in ONNX's order of each stored value, int64 (size,)."""
        return order(self.image) if self.image else np.arange(self.size)


def order(image: tuple[int, ...]) -> Array:
    """Return the place in (channels, height, width) of each value with the channels last, int64 (size,)."""
    places: Array = np.arange(math.prod(image)).reshape(image).transpose(1, 2, 0).reshape(-1)
    return places


def image_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return (channels, height, width) of an image or, with height 1, of a sequence (channels, length)."""
    channels, *sides = shape
    return (channels, *(1,) * (2 - len(sides)), *sides)


def stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a tensor with values of `dtype`."""
    return INT8 if dtype == np.uint8 else dtype


def offset_of(dtype: np.dtype[Any]) -> int:
    """Return the number by which codes of `dtype` exceed the stored ones."""
    return UNSIGNED_OFFSET if dtype == np.uint8 else 0


class Graph:
    """Tensors and operators in their order."""

    def __init__(self) -> None:
        self.tensors: list[TensorValue] = []
        self.operators: list[OperatorCall] = []

    def file(self, inputs: Sequence[Value], outputs: Sequence[Value], metadata: Mapping[str, bytes]) -> TfliteFile:
        """Return the file."""
        read, written = (tuple(value.tensor for value in side) for side in (inputs, outputs))
        return TfliteFile(tuple(self.tensors), tuple(self.operators), read, written, metadata)

    def activation(self, tensor: Tensor) -> Value:
        """Add an activation that no operator of the file writes; images and sequences have the channels last."""
        image = image_of(tensor.shape) if 1 < len(tensor.shape) < 4 else None
        shape = (1, *image[1:], image[0]) if image else (1, *tensor.shape)
        return self._add(tensor.name, shape, stored_type(tensor.dtype), image=image, offset=offset_of(tensor.dtype))

    def constant(self, name: str, values: Array, scales: Scales | None = None) -> int:
        """Add a constant and return its number."""
        self.tensors.append(TensorValue(name, values.shape, values.dtype, scales, values))
        return len(self.tensors) - 1

    def call(
        self,
        operator: str,
        inputs: Sequence[int],
        name: str,
        like: Value,
        *,
        shape: tuple[int, ...] | None = None,
        dtype: np.dtype[Any] | None = None,
        scales: Affine | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Value:
        """Add an operator whose output `name` is stored as `like`, but with another shape, type or quantisation."""
        kept = self.tensors[like.tensor].scales if scales is None else None
        own = shape if shape is not None else like.shape
        kind = dtype if dtype is not None else like.dtype
        value = self._add(name, own, kind, image=like.image, offset=like.offset)
        quantisation = of_affine(scales, value.offset) if scales is not None else kept
        if quantisation is not None and kind == INT8:
            self._quantise(value, quantisation)
        self.operators.append(OperatorCall(operator, tuple(inputs), (value.tensor,), options or {}))
        return value

    def codes(self, value: Value, scales: Affine) -> Value:
        """Return codes in a tensor with this quantisation; they keep their numbers if the tensor has another one."""
        wanted, found = of_affine(scales, value.offset), self.tensors[value.tensor].scales
        if found is None:
            self._quantise(value, wanted)
            return value
        if (found.scale == wanted.scale).all() and found.zero_point == wanted.zero_point:
            return value
        name = self.tensors[value.tensor].name
        wide = self.cast(value, INT32, f"{name}/numbers")
        return self.cast(wide, INT8, f"{name}/requantized", scales)

    def cast(self, value: Value, dtype: np.dtype[Any], name: str, scales: Affine | None = None) -> Value:
        """Return the same numbers as another type."""
        types = {FLOAT: 0, INT32: 2, INT64: 4, INT8: 9}  # TensorType
        options = {"inDataType": types[value.dtype], "outDataType": types[dtype]}
        return self.call("CAST", [value.tensor], name, value, dtype=dtype, scales=scales, options=options)

    def binary(
        self, operator: str, value: Value, other: Value | Array, name: str, scales: Affine | None = None
    ) -> Value:
        """Return ADD, SUB, MUL or DIV of a value and another one or a constant."""
        second = other.tensor if isinstance(other, Value) else self.constant(f"{name}/constant", other)
        return self.call(operator, [value.tensor, second], name, value, scales=scales, options=PLAIN)

    def reshape(self, value: Value, shape: tuple[int, ...], name: str = "") -> Value:
        """Return the stored values with another shape; the same value if it has this shape and needs no name."""
        if value.shape == shape and not name:
            return value
        made = name or self.next_name(value, "reshaped")
        asked = self.constant(f"{made}/shape", np.array(shape, np.int32))
        return self.call("RESHAPE", [value.tensor, asked], made, value, shape=shape, options={"newShape": list(shape)})

    def plain(self, value: Value, shape: tuple[int, ...] | None = None) -> Value:
        """Return an activation in the order of ONNX, of shape (1, size) if no other one is given."""
        asked = (1, value.size) if shape is None else shape
        if value.image is None:
            return self.reshape(value, asked)
        channels, *sides = value.image
        if channels > 1 and math.prod(sides) > 1:
            image = self.reshape(value, (1, *sides, channels))
            value = self.transpose(image, (0, 3, 1, 2))
        return self.reshape(replace(value, image=None), asked)

    def as_image(self, value: Value, image: tuple[int, ...]) -> Value:
        """Return an activation of shape (1, height, width, channels)."""
        channels, *sides = image
        shape = (1, *sides, channels)
        if value.image != image:
            flat = self.plain(value, (1, *image))
            if channels > 1 and math.prod(sides) > 1:
                flat = self.transpose(flat, (0, 2, 3, 1))
            value = replace(flat, image=image)
        return self.reshape(value, shape)

    def as_stored(self, value: Value, like: Value) -> Value:
        """Return an activation with the order and the shape of another one of its size."""
        same = self.as_image(value, like.image) if like.image else self.plain(value)
        return self.reshape(same, like.shape)

    def gather(self, value: Value, places: Array, shape: tuple[int, ...], name: str) -> Value:
        """Return the values at these places of the stored ones, in the order of ONNX."""
        flat = self.reshape(value, (1, value.size))
        table = self.constant(f"{name}/places", places.astype(np.int32))
        return self.call(
            "GATHER", [flat.tensor, table], name, replace(flat, image=None), shape=shape, options={"axis": 1}
        )

    def renamed(self, value: Value, name: str) -> Value:
        """Return the same values as a tensor with this name, by an operator that changes nothing."""
        return self.reshape(value, value.shape, name)

    def rounded(self, value: Value, y: Affine, dtype: np.dtype[Any], name: str) -> Value:
        """Return saturate(round_half_even(value) + zero_point) as codes of a scale, exactly.

        QUANTIZE of TFLite multiplies by 1 / scale, so the rounded number n enters it as n * scale, which is so near to
        a whole multiple that the product is rounded to n.
        """
        whole = self.call("ROUND", [value.tensor], f"{name}/rounded", value)
        scaled = self.binary("MUL", whole, np.array([y.scale], np.float32), f"{name}/scaled")
        stored = replace(scaled, offset=offset_of(dtype))
        return self.call("QUANTIZE", [stored.tensor], name, stored, dtype=INT8, scales=y)

    def transpose(self, value: Value, axes: tuple[int, ...]) -> Value:
        """Return the stored values with their axes in another order; the order of the values is that of the result."""
        name, shape = self.next_name(value, "transposed"), tuple(value.shape[axis] for axis in axes)
        table = self.constant(f"{name}/axes", np.array(axes, np.int32))
        return self.call("TRANSPOSE", [value.tensor, table], name, replace(value, image=None), shape=shape)

    def next_name(self, value: Value, step: str) -> str:
        """Return a name that no tensor has, of a step that starts from `value`."""
        name = f"{self.tensors[value.tensor].name}/{step}"
        used = {tensor.name for tensor in self.tensors}
        return next(each for each in (name, *(f"{name}_{n}" for n in range(2, len(used) + 3))) if each not in used)

    def _add(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], **order_of_values: Any) -> Value:
        self.tensors.append(TensorValue(name, shape, dtype))
        return Value(len(self.tensors) - 1, shape, dtype, **order_of_values)

    def _quantise(self, value: Value, scales: Scales) -> None:
        self.tensors[value.tensor] = replace(self.tensors[value.tensor], scales=scales)


def of_affine(affine: Affine, offset: int) -> Scales:
    """Return the quantisation of stored codes."""
    return Scales(np.atleast_1d(np.float32(affine.scale)), int(affine.zero_point) - offset)
