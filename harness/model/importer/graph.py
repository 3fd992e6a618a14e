"""Shared reader of ONNX: bytes -> folded constants, one chain of nodes, the shape of the inputs of each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # protobuf ships no types

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.graph import require_inside, texts, values_of
from harness.operators.node import Node, domain_of, element_type

Shape = tuple[int, ...]

PRODUCTS = {("", "MatMul"): 1, ("", "Gemm"): 1, ("", "MatMulInteger"): 1}
"""The operators that multiply matrices, and where they read the second; the first is their input 0."""
PRODUCTS |= {("", "QLinearMatMul"): 3, ("com.microsoft", "QGemm"): 3}
CHAIN = "a chain of layers without branches"
SIZES = (
    "1 to 4 fixed sizes, of which the first, the number of vectors, may be free: for dense layers one is the width and "
    "the others are 1; for a convolution (1, channels, height, width)"
)
ELEMENTWISE = ("Add", "Sub", "Mul", "Div")

INPUT_TYPES: dict[int, np.dtype[Any]] = {
    onnx.TensorProto.FLOAT: np.dtype(np.float32),
    onnx.TensorProto.DOUBLE: np.dtype(np.float64),
    onnx.TensorProto.FLOAT16: np.dtype(np.float16),
}


@dataclass(frozen=True, eq=False)
class Dequantised:
    """A constant that the file stores as integers with a DequantizeLinear of its own: scale * (codes - zero_point).

    `scale` and `zero_point` are of shape (), (1,) or (codes.shape[axis],).
    """

    node: Node
    codes: Array
    scale: Array
    zero_point: Array
    axis: int


@dataclass(frozen=True, eq=False)
class Link:
    """A node of the chain: it reads the chain at its input `position`, of this `shape` for one vector."""

    node: Node
    position: int
    shape: Shape
    output_shape: Shape

    @property
    def operator(self) -> tuple[str, str]:
        """Domain and name."""
        return domain_of(self.node.proto), self.node.operator

    @property
    def output(self) -> str:
        """The name of the tensor that it writes."""
        return str(self.node.proto.output[0])


@dataclass(frozen=True, eq=False)
class Graph:
    """A decoded model: its constants and the remaining nodes.

    `input_shape` is that for one vector; `dtype` is float32, float64 or float16.
    """

    name: str
    model: onnx.ModelProto
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    dequantised: Mapping[str, Dequantised]
    input_name: str
    input_shape: Shape
    dtype: np.dtype[Any]
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def outputs(self) -> list[str]:
        """The names of the model's outputs."""
        return [value.name for value in self.model.graph.output]

    def shape_of(self, constant: str) -> Shape:
        """Return the shape of a constant, folded or dequantised."""
        known = self.dequantised[constant].codes if constant in self.dequantised else self.constants[constant]
        return known.shape

    def is_constant(self, name: str) -> bool:
        """Return whether the tensor is independent of the input."""
        return name in self.constants or name in self.dequantised


def read(model: onnx.ModelProto, name: str) -> Graph:
    """Fold what moves or stores constants, and find the one input; raise RequestError if there is another number."""
    constants = {tensor.name: values_of(tensor, tensor.name, name) for tensor in model.graph.initializer}
    dequantised: dict[str, Dequantised] = {}
    nodes = []
    for index, proto in enumerate(model.graph.node):
        node = Node(name, proto, proto.name or f"{proto.op_type}_{index}", constants, {})
        if not _fold(node, constants, dequantised):
            nodes.append(node)
    source = _input(model.graph, constants, name)
    return Graph(
        name=name,
        model=model,
        nodes=tuple(nodes),
        constants=constants,
        dequantised=dequantised,
        input_name=source.name,
        input_shape=_input_shape(source, name),
        dtype=_input_type(source, name),
        metadata={entry.key: entry.value for entry in model.metadata_props},
    )


def decode(onnx_bytes: bytes, name: str) -> onnx.ModelProto:
    """Decode and check a model, and remove the nodes that no output needs.

    Raises RequestError for invalid ONNX, and for data in other files.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(onnx_bytes)
    except DecodeError:
        model.Clear()
    if not model.graph.node or not all(isinstance(text, str) for text in texts(model)):
        reason = "is empty" if not onnx_bytes else "is not an ONNX model with nodes, or is cut short"
        raise RequestError(f"model {name!r} {reason} ({len(onnx_bytes)} bytes)", "give a complete .onnx file")
    if model.functions:
        raise RequestError(f"model {name!r} defines local functions", "inline them: onnx.inliner")
    if model.graph.sparse_initializer:
        raise RequestError(f"model {name!r} has sparse initializers", "store them as dense initializers")
    _require_inside(model.graph, name)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, UnicodeDecodeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise RequestError(f"model {name!r} is not valid ONNX: {reason}", "see onnx.checker.check_model") from error
    remove_unread(model.graph)
    return model


def remove_unread(graph: onnx.GraphProto) -> None:
    """Remove the nodes that no output needs."""
    needed = {value.name for value in graph.output}
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            needed.update(node.input)
            needed.update(name for entry in node.attribute for inner in entry.g.node for name in inner.input)


def _require_inside(graph: onnx.GraphProto, name: str) -> None:
    held = [attribute.t for node in graph.node for attribute in node.attribute if attribute.HasField("t")]
    for tensor in (*graph.initializer, *held):
        require_inside(tensor, tensor.name, name)


def _input(graph: onnx.GraphProto, constants: Mapping[str, Array], name: str) -> onnx.ValueInfoProto:
    inputs: list[onnx.ValueInfoProto] = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(repr(value.name) for value in inputs) or "none"
        raise RequestError(
            f"model {name!r} has {len(inputs)} inputs ({names})",
            "exactly one, the vectors; `harness models import FILE --join-inputs -o NAME` makes one of several",
        )
    return inputs[0]


def _input_type(value: onnx.ValueInfoProto, name: str) -> np.dtype[Any]:
    kind = value.type.tensor_type.elem_type
    if kind not in INPUT_TYPES:
        raise RequestError(
            f"model {name!r}: input {value.name!r} is {element_type(kind)}", "float32, float64 or float16 vectors"
        )
    return INPUT_TYPES[kind]


def _input_shape(value: onnx.ValueInfoProto, name: str) -> Shape:
    """Return the shape for one vector: a free first size is the number of vectors, and here 1."""
    sizes = value.type.tensor_type.shape.dim
    shape = tuple(1 if index == 0 and not size.dim_value else int(size.dim_value) for index, size in enumerate(sizes))
    if not 1 <= len(shape) <= 4 or 0 in shape:
        text = ", ".join(size.dim_param or str(size.dim_value or "?") for size in sizes)
        raise RequestError(f"model {name!r}: input {value.name!r} has shape ({text})", SIZES)
    return shape


def _fold(node: Node, constants: dict[str, Array], dequantised: dict[str, Dequantised]) -> bool:
    """Add the node's result to `constants` or `dequantised` if it is a constant; return whether it is."""
    if domain_of(node.proto) or not all(name in constants for name in node.inputs if name):
        return False
    output = node.proto.output[0]
    if node.operator == "DequantizeLinear":
        dequantised[output] = _dequantised(node)
        return True
    try:
        constants[output] = FOLDS[node.operator](node)
    except (ValueError, IndexError, KeyError) as error:
        raise node.refusal(f"does not fit its constant: {error}", "export the model again") from error
    return True


def _constant(node: Node) -> Array:
    (attribute,) = node.proto.attribute
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return values_of(value, value.name, node.model)
    if attribute.name in ("value_float", "value_floats"):
        return np.asarray(value, np.float32)
    if attribute.name in ("value_int", "value_ints"):
        return np.asarray(value, np.int64)
    raise node.refusal(
        f"stores its value as {attribute.name}", "a tensor (attribute value), numbers, or an initializer"
    )


def _dequantised(node: Node) -> Dequantised:
    node.require_inputs(2, 3)
    codes, scale = (node.constants[name] for name in node.inputs[:2])
    zero_point = node.constants[node.inputs[2]] if node.has(2) else np.zeros(scale.shape, codes.dtype)
    attributes = node.attributes({"axis": 1, "block_size": 0, "output_dtype": 0})
    if attributes["block_size"]:
        raise node.refusal(f"block_size is {attributes['block_size']}", "one scale for the tensor or for each column")
    if scale.dtype != np.float32:
        raise node.refusal(f"the scale is {scale.dtype}", "float32 scales")
    return Dequantised(node, codes, scale, zero_point, int(attributes["axis"]))


def _cast(node: Node) -> Array:
    to = next(entry.i for entry in node.proto.attribute if entry.name == "to")
    with np.errstate(over="ignore"):
        return node.constants[node.inputs[0]].astype(onnx.helper.tensor_dtype_to_np_dtype(to))


def _multiply(node: Node) -> Array:
    """Compute as IEEE 754 requires: one rounding, the same everywhere."""
    first, second = (node.constants[name] for name in node.inputs)
    if first.dtype not in (np.float32, np.float64):
        raise node.refusal(f"multiplies {first.dtype} constants", "float32 constants")
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(first * second)


def _move(node: Node) -> Array:
    return MOVES[node.operator](node, node.constants[node.inputs[0]])


def chain(graph: Graph) -> tuple[Link, ...]:
    """Return the nodes in order; each reads the output of the one before it, and otherwise only constants.

    Raises RequestError for branches and for shapes that are more than one vector.
    """
    if sum(size > 1 for size in graph.input_shape) > 1:
        raise RequestError(f"model {graph.name!r}: input {graph.input_name!r} has shape {graph.input_shape}", SIZES)
    _require_no_branch(graph)
    links: list[Link] = []
    source, shape = graph.input_name, graph.input_shape
    for node in graph.nodes:
        variable = [place for place, name in enumerate(node.inputs) if name and not graph.is_constant(name)]
        if len(variable) != 1 or node.inputs[variable[0]] != source:
            names = ", ".join(repr(node.inputs[place]) for place in variable)
            raise node.refusal(f"reads {names} where the chain is at {source!r}", CHAIN)
        link = Link(node, variable[0], shape, _output_shape(graph, node, variable[0], shape))
        links.append(link)
        source, shape = link.output, link.output_shape
    return tuple(links)


def _require_no_branch(graph: Graph) -> None:
    readers = Counter(name for node in graph.nodes for name in set(node.inputs) if not graph.is_constant(name))
    for name, count in readers.items():
        if name and count > 1:
            raise RequestError(f"model {graph.name!r}: {count} nodes read {name!r}", CHAIN)


def _output_shape(graph: Graph, node: Node, position: int, shape: Shape) -> Shape:
    operator = (domain_of(node.proto), node.operator)
    if operator in PRODUCTS:
        return _product_shape(graph, node, position, shape)
    if operator[0] == "" and node.operator in ELEMENTWISE and len(node.inputs) == 2:
        return _broadcast_shape(node, shape, graph.shape_of(node.inputs[1 - position]))
    if operator[0] == "" and node.operator in MOVES:
        return _moved_shape(node, shape)
    return shape


def _moved_shape(node: Node, shape: Shape) -> Shape:
    """Return the shape after a node that may rename the axes but not reorder the values."""
    places = np.arange(np.prod(shape)).reshape(shape)
    try:
        moved = MOVES[node.operator](node, places)
    except (ValueError, IndexError, KeyError) as error:
        raise node.refusal(f"does not take one vector of shape {shape}: {error}", "a fixed batch of 1") from error
    if moved.size != places.size or (moved.reshape(-1) != places.reshape(-1)).any():
        raise node.refusal("reorders the values of a vector", "leave it out, or permute the weights instead")
    return moved.shape


def _broadcast_shape(node: Node, shape: Shape, other: Shape) -> Shape:
    try:
        result = np.broadcast_shapes(shape, other)
    except ValueError:
        result = ()
    if np.prod(result) != np.prod(shape) or not result:
        raise node.refusal(
            f"combines one vector of shape {shape} with a constant of shape {other}",
            "a constant of one value, or of one value for each of the vector's",
        )
    return result


def _product_shape(graph: Graph, node: Node, position: int, shape: Shape) -> Shape:
    """Return the shape of the product of one vector and a constant matrix."""
    second = PRODUCTS[domain_of(node.proto), node.operator]
    if position not in (0, second):
        raise node.refusal(f"reads the vector as its input {position}", "the vector as a factor, all else constant")
    left, right = _factors(graph, node, position, shape, second)
    if 0 in (*left, *right):
        raise node.refusal(f"multiplies shapes {left} and {right}, one of them empty", "sizes of 1 or more")
    if position == 0 and len(right) in (1, 2) and left == (*(1,) * (len(left) - 1), right[0]):
        return left[:-1] + right[1:]
    if position == second and len(left) in (1, 2) and right == left[-1:]:
        return left[:-1]
    if position == second and len(left) in (1, 2) and right == (*(1,) * (len(right) - 2), left[-1], 1):
        return (*right[:-2], *left[:-1], 1)
    raise node.refusal(
        f"multiplies shapes {left} and {right}",
        "x @ W with x (1, inputs) and W (inputs, outputs), or W @ x with W (outputs, inputs) and x (inputs, 1)",
    )


def _factors(graph: Graph, node: Node, position: int, shape: Shape, second: int) -> tuple[Shape, Shape]:
    """Return the shapes of the first and the second matrix, after their transposition."""
    constant = graph.shape_of(node.inputs[second if position == 0 else 0])
    left, right = (shape, constant) if position == 0 else (constant, shape)
    flags = {entry.name: entry.i for entry in node.proto.attribute}
    return left[:: -1 if flags.get("transA") else 1], right[:: -1 if flags.get("transB") else 1]


def matrix(link: Link, constant: Array) -> Array:
    """Return the constant factor of a product as (K, N): vector (K,) @ it = result (N,)."""
    flags = {entry.name: entry.i for entry in link.node.proto.attribute}
    transposed = flags.get("transB" if link.position == 0 else "transA", 0)
    values = np.atleast_2d(constant.T if transposed else constant)
    if constant.ndim == 1 and link.position == 0:
        values = values.T
    return np.ascontiguousarray(values if link.position == 0 else values.T)


def _identity(_node: Node, values: Array) -> Array:
    return values


def _dropout(node: Node, values: Array) -> Array:
    if node.has(2) and node.constants[node.inputs[2]].any():
        raise node.refusal("is in training mode", "export the model for inference")
    return values


def _reshape(node: Node, values: Array) -> Array:
    asked = [int(size) for size in node.constants[node.inputs[1]].reshape(-1)]
    if not node.attributes({"allowzero": 0})["allowzero"]:
        asked = [size or values.shape[axis] for axis, size in enumerate(asked)]
    return values.reshape(asked)


def _flatten(node: Node, values: Array) -> Array:
    axis = node.attributes({"axis": 1})["axis"]
    return values.reshape(math.prod(values.shape[:axis]), -1)


def _transpose(node: Node, values: Array) -> Array:
    return values.transpose(node.attributes({"perm": list(range(values.ndim))[::-1]})["perm"])


def _axes(node: Node) -> tuple[int, ...] | None:
    """Return the axes: an attribute before opset 13, an input from then on."""
    if node.has(1):
        return tuple(int(axis) for axis in node.constants[node.inputs[1]].reshape(-1))
    return tuple(node.attributes({"axes": []})["axes"]) or None


def _squeeze(node: Node, values: Array) -> Array:
    return values.squeeze(_axes(node))


def _unsqueeze(node: Node, values: Array) -> Array:
    return np.expand_dims(values, _axes(node) or ())


MOVES: dict[str, Callable[[Node, Array], Array]] = {
    "Identity": _identity,
    "Dropout": _dropout,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
"""The operators that move values without computing any: array -> array."""

FOLDS: dict[str, Callable[[Node], Array]] = {
    "Constant": _constant,
    "Cast": _cast,
    "Mul": _multiply,
    **dict.fromkeys(MOVES, _move),
}
"""The operators that are computed where all that they read is constant."""
