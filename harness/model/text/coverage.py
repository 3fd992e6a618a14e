"""ONNX fields that the text form covers, and the names of all other fields of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx.helper
from google.protobuf.message import Message  # type: ignore[import-untyped] # protobuf ships no types
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]
from onnx import TensorProto

from harness.operators.tensor import EVERY_TYPE

# The element types, and the field of TensorProto that holds their values where it is not raw_data.
ELEMENT_TYPES = {kind.name: onnx.helper.np_dtype_to_tensor_dtype(kind) for kind in EVERY_TYPE}
TYPE_NAMES: dict[int, str] = {number: name for name, number in ELEMENT_TYPES.items()}
TYPED_FIELDS = {name: onnx.helper.tensor_dtype_to_field(number) for name, number in ELEMENT_TYPES.items()}
ATTRIBUTE_TYPES = {
    "int": onnx.AttributeProto.INT,
    "float": onnx.AttributeProto.FLOAT,
    "tensor": onnx.AttributeProto.TENSOR,
}

# The texts of a model that have a line of their own, in the order of the text form.
MODEL_TEXTS = ("producer_name", "producer_version", "domain", "doc_string")
MODEL_INTEGERS = ("ir_version", "model_version")

_ANNOTATION = {"doc_string", "metadata_props"}
_COVERED = {
    "ModelProto": {*MODEL_TEXTS, *MODEL_INTEGERS, "opset_import", "graph", "metadata_props"},
    "OperatorSetIdProto": {"domain", "version"},
    "StringStringEntryProto": {"key", "value"},
    "GraphProto": {"node", "name", "initializer", "input", "output", "value_info", *_ANNOTATION},
    "NodeProto": {"input", "output", "name", "op_type", "domain", "overload", "attribute", *_ANNOTATION},
    "AttributeProto": {"name", "type", "i", "f", "t"},
    "TensorProto": {
        "dims", "data_type", "name", "raw_data", "float_data", "int32_data", "int64_data", "uint64_data",
        *_ANNOTATION,
    },
    "ValueInfoProto": {"name", "type", *_ANNOTATION},
    "TypeProto": {"tensor_type"},
    "Tensor": {"elem_type", "shape"},
    "TensorShapeProto": {"dim"},
    "Dimension": {"dim_value", "dim_param"},
}  # fmt: skip


def uncovered(message: Message, path: str) -> Iterator[str]:
    """Yield everything in a protobuf message of ONNX that the text form has no words for, each by its path."""
    yield from (f"{path}: unknown field {field.field_number}" for field in UnknownFieldSet(message))
    yield from _unknown_type(message, path)
    for name, place, value in _fields(message, path):
        if name not in _COVERED[message.DESCRIPTOR.name]:
            yield place
        elif isinstance(value, Message):
            yield from uncovered(value, place)


def leaves(message: Message, path: str) -> Iterator[tuple[str, str]]:
    """Yield the content of a message: the path of every field that is not a message, and its value as text."""
    for _, place, value in _fields(message, path):
        yield from leaves(value, place) if isinstance(value, Message) else [(place, repr(value))]


def _fields(message: Message, path: str) -> Iterator[tuple[str, str, Any]]:
    """Name, path and value of every field that is set; messages of a repeated field one by one."""
    for field, value in message.ListFields():
        place = f"{path}.{field.name}"
        if field.message_type and field.is_repeated:
            yield from ((field.name, f"{place}[{index}]", entry) for index, entry in enumerate(value))
        else:
            yield field.name, place, value


def _unknown_type(message: Message, path: str) -> Iterator[str]:
    if isinstance(message, TensorProto) and message.data_type not in TYPE_NAMES:
        yield f"{path}.data_type {_name(TensorProto.DataType, message.data_type)}"
    if isinstance(message, onnx.TypeProto.Tensor) and message.elem_type not in TYPE_NAMES:
        yield f"{path}.elem_type {_name(TensorProto.DataType, message.elem_type)}"
    if isinstance(message, onnx.AttributeProto) and message.type not in ATTRIBUTE_TYPES.values():
        yield f"{path}.type {_name(onnx.AttributeProto.AttributeType, message.type)}"


def _name(enumeration: object, number: int) -> str:
    names: dict[int, str] = {value: name for name, value in enumeration.items()}  # type: ignore[attr-defined]
    return names.get(number, str(number))
