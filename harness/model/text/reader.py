"""A description and its weights file -> the model: a strict reader of lines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped] # protobuf ships no types

from harness.core.errors import RequestError
from harness.model.text.coverage import ATTRIBUTE_TYPES, ELEMENT_TYPES, MODEL_INTEGERS, MODEL_TEXTS, TYPE_NAMES
from harness.model.text.tensors import Row, append, rows, take_declaration, take_element, take_value
from harness.model.text.tokens import INT64_LIMITS, Cursor, Source
from harness.model.transforms.edit import declare_functions

DESCRIPTION_FORMAT = "harness model description, format 1"
WEIGHTS_FORMAT = "harness model weights, format 1"
SHA256 = re.compile(r"[0-9a-f]{64}\b")

Statement: TypeAlias = Callable[[Cursor], None]
Annotated: TypeAlias = onnx.GraphProto | onnx.NodeProto | onnx.TensorProto | onnx.ValueInfoProto


@dataclass(frozen=True)
class Rebuilt:
    """The result of reading two texts: the bytes of an ONNX file.

    `name` is the name of the model that was described.  `original` is true if the head holds the SHA-256 of these
    bytes; otherwise they are a new model.
    """

    name: str
    onnx_bytes: bytes
    original: bool


def rebuild(description: Source, weights: Source) -> Rebuilt:
    """Return the model that two texts describe.

    RequestError with file and line for whatever is not as the format has it, and where the head holds a SHA-256 that
    the weights file or the result does not have.
    """
    reader = _Reader(description)
    reader.read(weights)
    onnx_bytes: bytes = reader.model.SerializeToString()
    for kind, content in (("weights", weights.text.encode()), ("onnx", onnx_bytes)):
        if kind in reader.sha256:
            _require_sha256(kind, content, *reader.sha256[kind])
    return Rebuilt(reader.name, onnx_bytes, original="onnx" in reader.sha256)


def read_model(description: Source, weights: Source) -> onnx.ModelProto:
    """Return the model that two texts describe, ignoring the SHA-256 of their head; raise RequestError as `rebuild`."""
    reader = _Reader(description)
    reader.read(weights)
    return reader.model


def _require_sha256(kind: str, content: bytes, cursor: Cursor, expected: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        what = "the weights file" if kind == "weights" else "the ONNX file that these texts give"
        raise RequestError(
            f"{cursor.file}, line {cursor.number}: {what} has SHA-256 {found}, not {expected}",
            "get both files as they were written; or, if they were changed on purpose, take the sha256 lines out of "
            "the head: the description is then loaded as a new model",
        )


@dataclass
class _Reader:
    """A model under construction; indented lines belong to `block`."""

    source: Source
    model: onnx.ModelProto = field(default_factory=onnx.ModelProto)
    name: str = ""
    sha256: dict[str, tuple[Cursor, str]] = field(default_factory=dict)
    block: Annotated | None = None
    apart: list[tuple[str, onnx.TensorProto]] = field(default_factory=list)

    def read(self, weights: Source) -> None:
        """Read both texts."""
        cursor = Cursor(self.source.file, 1, "")
        for cursor in _lines(self.source, DESCRIPTION_FORMAT):
            self._line(cursor)
            cursor.take_end()
        if not self.name or not self.model.graph.HasField("name"):
            raise Cursor(cursor.file, cursor.number + 1, "").error("a line `model` and a line `graph`")
        _fill(self.apart, weights)
        declare_functions(self.model)

    def _line(self, cursor: Cursor) -> None:
        if cursor.text.startswith(" "):
            _dispatch(cursor, self._indented())
        else:
            self.block = None
            _dispatch(cursor, self._statements())

    def _statements(self) -> dict[str, Statement]:
        """Return the readers of lines without indentation, by their first word."""
        texts = {name: self._text_field(self.model, name) for name in MODEL_TEXTS}
        integers = {name: self._integer_field(name) for name in MODEL_INTEGERS}
        values = {name: self._value(name) for name in ("input", "output", "value_info")}
        return {
            "model": self._model,
            "sha256": self._sha256,
            **integers,
            **texts,
            "opset_import": self._opset,
            "metadata_props": lambda cursor: _take_property(cursor, self.model.metadata_props.add()),
            "graph": self._graph,
            **values,
            "initializer": self._initializer,
            "node": self._node,
        }

    def _indented(self) -> dict[str, Statement]:
        """Return the readers of indented lines, which belong to the line before, by their first word."""
        block = self.block
        if block is None:
            return {}
        return {
            "doc_string": self._text_field(block, "doc_string"),
            "metadata_props": lambda cursor: _take_property(cursor, block.metadata_props.add()),
            **(self._of_node(block) if isinstance(block, onnx.NodeProto) else {}),
        }

    def _of_node(self, node: onnx.NodeProto) -> dict[str, Statement]:
        return {
            "domain": self._text_field(node, "domain"),
            "overload": self._text_field(node, "overload"),
            "input": lambda cursor: node.input.append(cursor.take_text("a tensor's name")),
            "output": lambda cursor: node.output.append(cursor.take_text("a tensor's name")),
            "attribute": lambda cursor: self._attribute(cursor, node),
        }

    def _text_field(self, message: Message, name: str) -> Statement:
        return lambda cursor: _set_once(cursor, message, name, cursor.take_text("a text"))

    def _integer_field(self, name: str) -> Statement:
        return lambda cursor: _set_once(cursor, self.model, name, cursor.take_integer(*INT64_LIMITS))

    def _model(self, cursor: Cursor) -> None:
        if self.name:
            raise cursor.error("one line `model`")
        self.name = cursor.take_text("the model's name")

    def _sha256(self, cursor: Cursor) -> None:
        kind = cursor.take_choice(("onnx", "weights"), "what the SHA-256 is of")
        if kind in self.sha256:
            raise cursor.error(f"one line `sha256 {kind}`")
        digest = cursor.accept(SHA256)
        if digest is None:
            raise cursor.error("64 hexadecimal digits")
        self.sha256[kind] = (cursor, digest)

    def _opset(self, cursor: Cursor) -> None:
        opset = self.model.opset_import.add()
        domain = cursor.accept_text("the domain")
        if domain is not None:
            opset.domain = domain
        opset.version = cursor.take_integer(*INT64_LIMITS)

    def _graph(self, cursor: Cursor) -> None:
        _set_once(cursor, self.model.graph, "name", cursor.take_text("the graph's name"))
        self.block = self.model.graph

    def _value(self, where: str) -> Statement:
        def read(cursor: Cursor) -> None:
            value = getattr(self.model.graph, where).add(name=cursor.take_text("a tensor's name"))
            if not cursor.at_end():
                _take_type(cursor, value.type.tensor_type)
            self.block = value

        return read

    def _initializer(self, cursor: Cursor) -> None:
        tensor = self.model.graph.initializer.add(name=cursor.take_text("the tensor's name"))
        self._declaration(cursor, tensor, tensor.name)
        self.block = tensor

    def _declaration(self, cursor: Cursor, tensor: onnx.TensorProto, name: str) -> None:
        if take_declaration(cursor, tensor):
            self.apart.append((name, tensor))

    def _node(self, cursor: Cursor) -> None:
        node = self.model.graph.node.add(op_type=cursor.take_word("an operator"))
        name = cursor.accept_text("the node's name")
        if name is not None:
            node.name = name
        self.block = node

    def _attribute(self, cursor: Cursor, node: onnx.NodeProto) -> None:
        attribute = node.attribute.add(name=cursor.take_text("the attribute's name"))
        kind = cursor.take_choice(tuple(ATTRIBUTE_TYPES), "the attribute's type")
        attribute.type = ATTRIBUTE_TYPES[kind]
        if kind == "int":
            attribute.i = cursor.take_integer(*INT64_LIMITS)
        elif kind == "float":
            attribute.f = float(cursor.take_float())
        else:
            self._tensor_attribute(cursor, node, attribute.t)

    def _tensor_attribute(self, cursor: Cursor, node: onnx.NodeProto, tensor: onnx.TensorProto) -> None:
        """Read a tensor of a Constant node; the weights file calls it by the name of the node's output."""
        if not node.output:
            raise cursor.error("the node's output above its tensor")
        name = cursor.accept_text("the tensor's name")
        if name is not None:
            tensor.name = name
        self._declaration(cursor, tensor, node.output[0])


def _lines(source: Source, first: str) -> Iterator[Cursor]:
    """Yield the lines that say something, after the first, which names the format."""
    lines = source.text.split("\n")
    if lines[0] != first:
        raise Cursor(source.file, 1, lines[0]).error(repr(first))
    for number, line in enumerate(lines[1:], 2):
        cursor = Cursor(source.file, number, line)
        if not cursor.at_end():
            yield cursor


def _dispatch(cursor: Cursor, statements: Mapping[str, Statement]) -> None:
    keyword = cursor.take_choice(tuple(statements), "one of" if statements else "a line that is not indented")
    statements[keyword](cursor)


def _set_once(cursor: Cursor, message: Message, name: str, value: str | int) -> None:
    if message.HasField(name):
        raise cursor.error(f"one {name}", "a second one")
    setattr(message, name, value)


def _take_property(cursor: Cursor, entry: onnx.StringStringEntryProto) -> None:
    """Read a key and its value: in quotes, or after a colon the rest of the line."""
    entry.key = cursor.take_text("the key")
    entry.value = cursor.take_rest() if cursor.accept_sign(":") else cursor.take_text("the value after a colon, or")


def _take_type(cursor: Cursor, kind: onnx.TypeProto.Tensor) -> None:
    kind.elem_type = ELEMENT_TYPES[take_element(cursor)]
    if cursor.accept_sign("("):
        kind.shape.SetInParent()
        while not cursor.accept_sign(")"):
            _take_dimension(cursor, kind.shape.dim.add())
            cursor.accept_sign(",")


def _take_dimension(cursor: Cursor, dim: onnx.TensorShapeProto.Dimension) -> None:
    parameter = cursor.accept_text("the dimension's name")
    if parameter is not None:
        dim.dim_param = parameter
    elif not cursor.accept_sign("?"):
        dim.dim_value = cursor.take_integer(*INT64_LIMITS)


def _fill(apart: list[tuple[str, onnx.TensorProto]], weights: Source) -> None:
    """Set the values of the tensors from the weights file, which contains exactly these tensors in this order."""
    lines = _lines(weights, WEIGHTS_FORMAT)
    end = Cursor(weights.file, weights.text.count("\n") + 1, "")
    for name, tensor in apart:
        values: list[np.float32 | int] = []
        for row in rows(name, TYPE_NAMES[tensor.data_type], tensor.dims):
            values += _row(next(lines, end), row, TYPE_NAMES[tensor.data_type])
        append(tensor, values)
    for cursor in lines:
        raise cursor.error("the end of the file")


def _row(cursor: Cursor, row: Row, element: str) -> list[np.float32 | int]:
    """Return the values of one line of the weights file."""
    cursor.take_sign(row.key)
    cursor.take_sign("=")
    values = []
    while not cursor.at_end():
        values.append(take_value(cursor, element))
    if len(values) != row.count:
        raise cursor.error(f"{row.count} values of {element} in {row.key}", str(len(values)))
    return values
