"""A model -> its description and its weights file."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx

from harness import operators
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.model.text.coverage import ATTRIBUTE_TYPES, MODEL_INTEGERS, MODEL_TEXTS, TYPE_NAMES, leaves, uncovered
from harness.model.text.reader import DESCRIPTION_FORMAT, WEIGHTS_FORMAT, read_model
from harness.model.text.tensors import constants, declaration, is_single, weight_lines
from harness.model.text.tokens import Source, float_word, quoted

Lines: TypeAlias = Iterator[str]
Annotated: TypeAlias = onnx.GraphProto | onnx.NodeProto | onnx.TensorProto | onnx.ValueInfoProto

HEAD = """\
# A complete model: these lines and the weights file hold all that its ONNX file holds, and nothing else does.
#   harness models load FILE -o NAME    reads both and writes the ONNX file, byte for byte
# From # to the end of a line is a comment, which is not read. Texts are in quotes, with JSON's escapes. Indented
# lines belong to the line above them. Keywords are the names of ONNX's fields.
# A float32 stands as the shortest decimal that is it and no other, and its bits: 0.1/0x3dcccccd.
# Constants of one value stand here, the others in the weights file; raw and typed tell how ONNX stores them.
# A model changed by hand: give a new float32 as its decimal alone and take the two sha256 lines out."""
WEIGHTS_HEAD = """\
# The constants of more than one value, in the order of the description: "name"[row] = a row of integers, or
# "name"[row, column] = one float32 as its shortest decimal and its bits. The comment tells which node reads it."""
GENERAL = """\
Every float32 operation below is one IEEE 754 operation, rounded half to even; nothing is fused or reordered.
LOW..HIGH are the codes of the output's type: 0..255 for uint8, -128..127 for int8."""
CONSTANT = "y = the tensor of its attribute `value`"
HOW_TO_NORMALISE = "write it in the canonical form first: harness models import FILE -o NAME"


@dataclass(frozen=True)
class Description:
    """A model as text: the description, and the weights file that goes with it."""

    text: str
    weights: str


def describe(network: Network) -> Description:
    """Return the two texts of a model, of which it has been checked that they give back the bytes of its ONNX file.

    RequestError names the first content of the file that the text form cannot express.
    """
    model = onnx.ModelProto.FromString(network.onnx_bytes)
    del model.functions[:]  # the reader adds them: they follow from the operators
    for place in uncovered(model, "model"):
        raise RequestError(f"model {network.name!r}: the text form has no words for {place}", HOW_TO_NORMALISE)
    weights = "\n".join([WEIGHTS_FORMAT, WEIGHTS_HEAD, *_weights(model), ""])
    head = _head(network.name, network.sha256, hashlib.sha256(weights.encode()).hexdigest())
    text = "\n".join([DESCRIPTION_FORMAT, *head, *_semantics(model), *_model(model), ""])
    read_back = read_model(Source("description", text), Source("weights", weights))
    if read_back.SerializeToString() != network.onnx_bytes:
        lost = _difference(model, read_back)
        raise RequestError(f"model {network.name!r}: the text form does not keep {lost}", HOW_TO_NORMALISE)
    return Description(text, weights)


def _head(name: str, onnx_sha256: str, weights_sha256: str) -> Lines:
    yield HEAD
    yield f"model {quoted(name)}"
    yield f"sha256 onnx {onnx_sha256}"
    yield f"sha256 weights {weights_sha256}"


def _semantics(model: onnx.ModelProto) -> Lines:
    """Return the formulas of the model's operators, once each, in the order of their first use."""
    yield "\n# What the operators compute, for every vector:"
    yield from _comments(GENERAL, "#   ")
    for name, operator in {node.op_type: operators.of_node(node) for node in model.graph.node}.items():
        yield f"# {name}"
        yield from _comments(operator.text.explain(name) if operator else CONSTANT, "#   ")


def _comments(text: str, mark: str) -> Lines:
    return (mark + line for line in text.splitlines())


def _model(model: onnx.ModelProto) -> Lines:
    graph = model.graph
    readers = _readers(graph)
    yield ""
    yield from (f"{field} {getattr(model, field)}" for field in MODEL_INTEGERS if model.HasField(field))
    yield from (f"{field} {quoted(getattr(model, field))}" for field in MODEL_TEXTS if model.HasField(field))
    yield from (_opset(opset) for opset in model.opset_import)
    yield from (_property(entry) for entry in model.metadata_props)
    yield f"\ngraph {quoted(graph.name)}"
    yield from _annotations(graph)
    for keyword, entries in (("input", graph.input), ("output", graph.output), ("value_info", graph.value_info)):
        yield from _paragraph(line for entry in entries for line in _value(keyword, entry))
    yield from _paragraph(line for tensor in graph.initializer for line in _initializer(tensor, readers))
    for node in graph.node:
        yield ""
        yield from _node(node)


def _paragraph(lines: Lines) -> Lines:
    for index, line in enumerate(lines):
        yield line if index else f"\n{line}"


def _opset(opset: onnx.OperatorSetIdProto) -> str:
    domain = [quoted(opset.domain)] if opset.HasField("domain") else []
    return " ".join(["opset_import", *domain, str(opset.version)])


def _property(entry: onnx.StringStringEntryProto) -> str:
    """Return a text after a colon if it is one readable line, otherwise in quotes."""
    plain = entry.value and entry.value.isprintable() and entry.value == entry.value.strip(" ")
    return f"metadata_props {quoted(entry.key)}" + (f": {entry.value}" if plain else f" {quoted(entry.value)}")


def _annotations(message: Annotated) -> Lines:
    if message.HasField("doc_string"):
        yield f"  doc_string {quoted(message.doc_string)}"
    yield from (f"  {_property(entry)}" for entry in message.metadata_props)


def _value(keyword: str, value: onnx.ValueInfoProto) -> Lines:
    words = [keyword, quoted(value.name)]
    if value.HasField("type"):
        kind = value.type.tensor_type
        words += [TYPE_NAMES[kind.elem_type], *([_shape(kind.shape)] if kind.HasField("shape") else [])]
    yield " ".join(words)
    yield from _annotations(value)


def _shape(shape: onnx.TensorShapeProto) -> str:
    return f"({', '.join(map(_dimension, shape.dim))})"


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> str:
    if dim.HasField("dim_value"):
        return str(dim.dim_value)
    return quoted(dim.dim_param) if dim.HasField("dim_param") else "?"


def _initializer(tensor: onnx.TensorProto, readers: dict[str, list[str]]) -> Lines:
    line = f"initializer {declaration(tensor, tensor.name)}"
    yield f"{line:70}  # {_comment(tensor, readers[tensor.name])}"
    yield from _annotations(tensor)


def _comment(tensor: onnx.TensorProto, readers: Sequence[str]) -> str:
    place = "" if is_single(tensor.dims) else ", in the weights file"
    return f"{', '.join(readers) or 'read by no node'}{place}"


def _readers(graph: onnx.GraphProto) -> dict[str, list[str]]:
    """Return for every tensor the nodes that read it, and their inputs."""
    readers = defaultdict(list)
    for node in graph.node:
        for position, name in enumerate(node.input):
            readers[name].append(f"{_role(node, position)} of {quoted(node.name or node.output[0])}")
    return readers


def _role(node: onnx.NodeProto, position: int) -> str:
    operator = operators.of_node(node)
    return operator.text.role(position) if operator else f"input {position}"


def _node(node: onnx.NodeProto) -> Lines:
    yield f"node {node.op_type}" + (f" {quoted(node.name)}" if node.HasField("name") else "")
    yield from (f"  {field} {quoted(getattr(node, field))}" for field in ("domain", "overload") if node.HasField(field))
    for position, name in enumerate(node.input):
        line = f"  input {quoted(name)}"
        yield f"{line:46}  # {_role(node, position)}"
    yield from (f"  output {quoted(name)}" for name in node.output)
    yield from (f"  attribute {quoted(attribute.name)} {_attribute(attribute)}" for attribute in node.attribute)
    yield from _annotations(node)


def _attribute(attribute: onnx.AttributeProto) -> str:
    if attribute.type == ATTRIBUTE_TYPES["int"]:
        return f"int {attribute.i}"
    if attribute.type == ATTRIBUTE_TYPES["float"]:
        return f"float {float_word(np.float32(attribute.f))}"
    name = attribute.t.name if attribute.t.HasField("name") else None
    return f"tensor {declaration(attribute.t, name)}"


def _weights(model: onnx.ModelProto) -> Lines:
    """Return the constants of more than one value."""
    readers = _readers(model.graph)
    for name, tensor in constants(model.graph):
        if not is_single(tensor.dims):
            kind = f"{TYPE_NAMES[tensor.data_type]} ({', '.join(map(str, tensor.dims))})"
            reader = ", ".join(readers[name]) or "read by no node"
            yield f"\n# {quoted(name)} {kind}"
            yield from weight_lines(tensor, name, reader)


def _difference(original: onnx.ModelProto, read_back: onnx.ModelProto) -> str:
    """Return the lost content: the path of the first field whose values differ, or else the order of the fields."""
    ours, theirs = (dict(leaves(model, "model")) for model in (original, read_back))
    differing = (path for path in ours | theirs if ours.get(path) != theirs.get(path))
    return next(differing, "the order of its fields in the file")
