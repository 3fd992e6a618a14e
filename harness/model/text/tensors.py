"""Constant tensors: the line that declares one, and the lines of the weights file that hold its values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from harness.core.arrays import Array
from harness.model.text.coverage import ELEMENT_TYPES, TYPE_NAMES, TYPED_FIELDS
from harness.model.text.tokens import Cursor, float_word, quoted
from harness.operators.tensor import integer_limits

# Columns of 8-bit weights are always aligned, so that one changed weight changes one line.
COLUMN_WIDTHS = {"int8": 4, "uint8": 3}


@dataclass(frozen=True)
class Row:
    """A line of the weights file: `count` values of the tensor `name`, at `index` of all axes or all but the last."""

    name: str
    index: tuple[int, ...]
    count: int

    @property
    def key(self) -> str:
        """The start of the line: "weight"[3]."""
        place = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return f"{quoted(self.name)}{place}"


def constants(graph: onnx.GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Yield all constant tensors by the names that nodes read: the initializers, then those of Constant nodes."""
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in graph.node:
        yield from ((node.output[0], attribute.t) for attribute in node.attribute if attribute.HasField("t"))


def is_single(dims: Sequence[int]) -> bool:
    """Return whether a tensor of this shape has one value, which its declaration then contains."""
    return math.prod(dims) == 1


def rows(name: str, element: str, dims: Sequence[int]) -> Iterator[Row]:
    """Yield the lines of the weights file for a tensor: a row of integers each, or one float32 each."""
    axes, count = (dims, 1) if element == "float32" else (dims[:-1], dims[-1])
    return (Row(name, index, count) for index in _places(axes))


def _places(axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all indices in C order, lazily, because a mistyped size may exceed the memory."""
    if not axes:
        yield ()
        return
    for index in range(axes[0]):
        yield from ((index, *rest) for rest in _places(axes[1:]))


def declaration(tensor: TensorProto, name: str | None) -> str:
    """Return the declaration of a tensor: name, type, shape, ONNX field of its values, and its value if it is one."""
    words = [] if name is None else [quoted(name)]
    words += [TYPE_NAMES[tensor.data_type], _shape(tensor.dims), "raw" if tensor.HasField("raw_data") else "typed"]
    return " ".join(words) + (f" = {_words(values(tensor))[0]}" if is_single(tensor.dims) else "")


def weight_lines(tensor: TensorProto, name: str, comment: str) -> Iterator[str]:
    """Yield the lines of the weights file for a tensor."""
    element = TYPE_NAMES[tensor.data_type]
    lines = list(rows(name, element, tensor.dims))
    key_width, word_width = max((len(row.key) for row in lines), default=0), COLUMN_WIDTHS.get(element, 0)
    words = iter(_words(values(tensor)))
    for row in lines:
        line = " ".join(word.rjust(word_width) for word in itertools.islice(words, row.count))
        yield f"{row.key:{key_width}} = {line}  # {comment}"


def values(tensor: TensorProto) -> Array:
    """Return the values of a tensor in a row."""
    dtype = np.dtype(TYPE_NAMES[tensor.data_type]).newbyteorder("<")
    if tensor.HasField("raw_data"):
        return np.frombuffer(tensor.raw_data, dtype)
    return np.array(getattr(tensor, TYPED_FIELDS[TYPE_NAMES[tensor.data_type]])).astype(dtype)


def _shape(dims: Sequence[int]) -> str:
    return f"({', '.join(map(str, dims))})"


def _words(array: Array) -> list[str]:
    return [float_word(value) if array.dtype.kind == "f" else str(int(value)) for value in array]


def take_declaration(cursor: Cursor, tensor: TensorProto) -> bool:
    """Read a declaration, but for its name, into `tensor`; return whether its values are in the weights file."""
    element = take_element(cursor)
    tensor.data_type = ELEMENT_TYPES[element]
    cursor.take_sign("(")
    while not cursor.accept_sign(")"):
        tensor.dims.append(_take_size(cursor))
    storage = cursor.take_choice(("raw", "typed"), "the storage")
    if storage == "raw":
        tensor.raw_data = b""
    if is_single(tensor.dims):
        cursor.take_sign("=")
        append(tensor, [take_value(cursor, element)])
    return not is_single(tensor.dims)


def take_element(cursor: Cursor) -> str:
    """Return an element type."""
    return cursor.take_choice(tuple(ELEMENT_TYPES), "the element type")


def _take_size(cursor: Cursor) -> int:
    size = cursor.take_integer(0, np.iinfo(np.int64).max)
    cursor.accept_sign(",")
    return size


def take_value(cursor: Cursor, element: str) -> np.float32 | int:
    """Return a value of this type."""
    if element == "float32":
        return cursor.take_float()
    return cursor.take_integer(*integer_limits(np.dtype(element)))


def append(tensor: TensorProto, more: Sequence[np.float32 | int]) -> None:
    """Append values to those of `tensor`."""
    dtype = np.dtype(TYPE_NAMES[tensor.data_type]).newbyteorder("<")
    if tensor.HasField("raw_data"):
        tensor.raw_data += np.array(more, dtype).tobytes()
    else:
        getattr(tensor, TYPED_FIELDS[TYPE_NAMES[tensor.data_type]]).extend(np.array(more, dtype).tolist())
