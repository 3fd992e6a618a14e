"""Values of inputs and outputs of a session, also of types that NumPy and ONNX Runtime's interface do not share."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.tensor import SHORT, SHORT_INTEGERS, integer_limits

if TYPE_CHECKING:
    import onnxruntime


NAMES = {
    f"tensor({onnx.TensorProto.DataType.Name(onnx.helper.np_dtype_to_tensor_dtype(kind)).lower()})" for kind in SHORT
}
"""ONNX Runtime's names of the types that its interface does not take as arrays of NumPy."""


def type_of(name: str) -> np.dtype[Any]:
    """Return NumPy's type, or that of ml_dtypes, for one of ONNX Runtime; raise RequestError if there is none."""
    element = name.removeprefix("tensor(").removesuffix(")").upper()
    if element not in onnx.TensorProto.DataType.keys() or element == "STRING":  # noqa: SIM118 - no mapping
        raise RequestError(f"an input of ONNX Runtime is {name}", "tensors of numbers")
    return onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(element))


def computed(loaded: onnxruntime.InferenceSession, names: Sequence[str] | None, feed: Mapping[str, Array]) -> list[Any]:
    """Return the outputs of a session, all or those with these names; raise what ONNX Runtime raises."""
    import onnxruntime

    entries = (*loaded.get_inputs(), *loaded.get_outputs())
    if not any(entry.type in NAMES for entry in entries):
        return list(loaded.run(None if names is None else list(names), dict(feed)))
    stored = {name: _stored(np.ascontiguousarray(value)) for name, value in feed.items()}
    feed_values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(feed[name])
        if value is feed[name]
        else onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(value, _number(feed[name].dtype))
        for name, value in stored.items()
    }
    chosen = [entry.name for entry in loaded.get_outputs()] if names is None else list(names)
    return [_array(value) for value in loaded.run_with_ort_values(chosen, feed_values)]


def _number(dtype: np.dtype[Any]) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


def _in_a_byte(dtype: np.dtype[Any]) -> int:
    """Return how many values ONNX Runtime keeps in a byte."""
    if dtype not in SHORT_INTEGERS:
        return 1
    low, high = integer_limits(dtype)
    return 8 // (high - low).bit_length()


def _stored(values: Array) -> Array:
    """Return an array of the same shape whose memory ONNX Runtime reads as these values."""
    if values.dtype not in SHORT:
        return values
    words, count = values.view(f"u{values.dtype.itemsize}"), _in_a_byte(values.dtype)
    if count == 1:
        return words
    flat = np.zeros(-(-words.size // count) * count, np.uint8)
    flat[: words.size] = words.reshape(-1) & ((1 << (8 // count)) - 1)
    packed = (flat.reshape(-1, count) << (np.arange(count) * (8 // count))).sum(1, dtype=np.uint8)
    memory = np.zeros(words.size, np.uint8)
    memory[: packed.size] = packed
    return memory.reshape(words.shape)


def _array(value: onnxruntime.OrtValue) -> Array:
    """Return the values of an output."""
    dtype = type_of(value.data_type())
    if dtype not in SHORT:
        return np.asarray(value.numpy())
    shape, count = value.shape(), _in_a_byte(dtype)
    size = math.prod(shape)
    length = -(-size // count) * dtype.itemsize
    memory = np.frombuffer(ctypes.string_at(value.data_ptr(), length) if size else b"", np.uint8)
    if count > 1:
        mask = (1 << (8 // count)) - 1
        memory = ((memory[:, None] >> (np.arange(count) * (8 // count))) & mask).astype(np.uint8).reshape(-1)[:size]
    return memory.view(dtype).reshape(shape)
