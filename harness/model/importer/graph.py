"""Shared reader of ONNX: bytes -> folded constants, one chain of nodes, the shape of the inputs of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import graph as models
from harness.model.graph import Opsets, opsets_of, require_inside, values_of, with_shapeless
from harness.model.onnx_runtime.sessions import return_freed_memory
from harness.operators.node import Node, domain_of, element_type
from harness.operators.tensor import FLOAT32

Shape = tuple[int, ...]
FLOAT64 = np.dtype(np.float64)
LARGEST = 1 << 30  # bytes of a constant that is computed

PRODUCTS = {("", "MatMul"): 1, ("", "Gemm"): 1, ("", "MatMulInteger"): 1}
"""The operators that multiply matrices, and where they read the second; the first is their input 0."""
PRODUCTS |= {("", "QLinearMatMul"): 3, ("com.microsoft", "QGemm"): 3}
CHAIN = "a chain of layers without branches"
SIZES = (
    "fixed sizes, of which the first, the number of vectors, may be free: for dense layers one is the width and "
    "the others are 1; for a convolution, or a Flatten, (1, channels, height, width)"
)
ELEMENTWISE = ("Add", "Sub", "Mul", "Div")
MOVES = frozenset({"Identity", "Dropout", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"})
"""The operators that rename axes, or move values."""
FOLDS = MOVES | {*ELEMENTWISE, "Constant", "Cast", "Gather", "Concat", "Slice", "Size", "Shape"}
FOLDS |= {"Equal", "Where", "ReduceProd", "Min", "Max"}
"""The operators that are computed where all that they read is constant; what has a sum of floats is not among them."""

OF_RUNTIME = ("SimplifiedLayerNormalization",)
"""Operators that ONNX Runtime has in ONNX's own domain: ONNX does not know them."""

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


class Constants(Mapping[str, Array]):
    """Constants by name; a large one stays in its tensor, and is read when it is used: it is held once."""

    LARGE = 1 << 16  # bytes

    def __init__(self, tensors: Iterable[tuple[str, onnx.TensorProto]], model: str) -> None:
        """Read all tensors; raise RequestError, with the name of the model, for a malformed one."""
        self._entries: dict[str, Array | onnx.TensorProto] = {}
        for name, tensor in tensors:
            values = values_of(tensor, name, model)
            self._entries[name] = tensor if values.nbytes > self.LARGE else values

    def __getitem__(self, name: str) -> Array:
        """Return the values of a constant."""
        entry = self._entries[name]
        return onnx.numpy_helper.to_array(entry) if isinstance(entry, onnx.TensorProto) else entry

    def __setitem__(self, name: str, values: Array) -> None:
        """Add a constant that was computed."""
        self._entries[name] = values

    def __contains__(self, name: object) -> bool:
        """Return whether there is a constant of this name, without reading it."""
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of constants."""
        return len(self._entries)


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


@dataclass(eq=False)
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

    def release(self) -> None:
        """Forget nodes and constants, with the weights; names, types and shapes of input and outputs stay."""
        model = onnx.ModelProto()
        model.graph.output.extend(self.model.graph.output)
        self.model, self.nodes, self.constants, self.dequantised = model, (), {}, {}
        return_freed_memory()

    def shape_of(self, constant: str) -> Shape:
        """Return the shape of a constant, folded or dequantised."""
        known = self.dequantised[constant].codes if constant in self.dequantised else self.constants[constant]
        return known.shape

    def is_constant(self, name: str) -> bool:
        """Return whether the tensor is independent of the input."""
        return name in self.constants or name in self.dequantised


def read(model: onnx.ModelProto, name: str, *, of_one_float: bool = True) -> Graph:
    """Fold what moves or stores constants, and find the one input; raise RequestError if there is another number.

    Without `of_one_float`, the inputs are any, and the graph states none.
    """
    constants = Constants(((tensor.name, tensor) for tensor in model.graph.initializer), name)
    dequantised: dict[str, Dequantised] = {}
    nodes = []
    for index, proto in enumerate(model.graph.node):
        node = Node(name, proto, proto.name or f"{proto.op_type}_{index}", constants, {})
        if not _fold(node, constants, dequantised, opsets_of(model)):
            nodes.append(node)
    source = _input(model.graph, constants, name) if of_one_float else None
    return Graph(
        name=name,
        model=model,
        nodes=tuple(nodes),
        constants=constants,
        dequantised=dequantised,
        input_name=source.name if source else "",
        input_shape=_input_shape(source, name) if source else (),
        dtype=_input_type(source, name) if source else FLOAT32,
        metadata={entry.key: entry.value for entry in model.metadata_props},
    )


def decode(onnx_bytes: bytes, name: str) -> onnx.ModelProto:
    """Decode and check a model, and remove the nodes that no output needs; see `require_valid`.

    Raises RequestError for local functions, too.
    """
    model = models.decode(onnx_bytes, name)
    if model.functions:
        raise RequestError(f"model {name!r} defines local functions", "inline them: onnx.inliner")
    require_valid(model, name)
    return model


def require_valid(model: onnx.ModelProto, name: str) -> None:
    """Check a model, and remove the nodes that no output needs; import the domains of all nodes.

    Raises RequestError for invalid ONNX, and for data in other files.  A file without the import of a domain is not
    refused for that: its reader wants to know which operator is not supported.
    """
    if not model.graph.node:
        raise RequestError(f"model {name!r} has no nodes", "give a complete .onnx file")
    if model.graph.sparse_initializer:
        raise RequestError(f"model {name!r} has sparse initializers", "store them as dense initializers")
    _require_inside(model.graph, name)
    unnamed = [node for node in model.graph.node if node.op_type in OF_RUNTIME and not node.domain]
    for node in unnamed:
        node.domain = "com.microsoft"
    known = {entry.domain for entry in model.opset_import}
    for domain in sorted({domain_of(node) for node in model.graph.node} - known - {""}):
        model.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, UnicodeDecodeError) as error:
        reason = with_shapeless(model, " ".join(str(error).split("\n")[:2]).strip())  # the node is in the second line
        raise RequestError(f"model {name!r} is not valid ONNX: {reason}", "see onnx.checker.check_model") from error
    finally:
        for node in unnamed:
            node.domain = ""
    remove_unread(model.graph)


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
            "exactly one, the vectors",
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
    if not shape or 0 in shape:
        text = ", ".join(size.dim_param or str(size.dim_value or "?") for size in sizes)
        raise RequestError(f"model {name!r}: input {value.name!r} has shape ({text})", SIZES)
    return shape


def _fold(node: Node, constants: Constants, dequantised: dict[str, Dequantised], opsets: Opsets) -> bool:
    """Add the node's results to `constants` or `dequantised` if it is a constant; return whether it is."""
    if domain_of(node.proto) or not all(name in constants for name in node.inputs if name):
        return False
    if node.operator == "DequantizeLinear":
        dequantised[node.proto.output[0]] = _dequantised(node)
        return True
    for tensor in (entry.t for entry in node.proto.attribute if entry.HasField("t")):
        values_of(tensor, tensor.name, node.model)  # a malformed one is refused
    try:
        results = computed(node, {name: constants[name] for name in node.inputs if name}, opsets)
    except RequestError:
        raise
    except Exception as error:  # its exceptions have no common base of their own
        raise node.refusal(f"does not fit its constant: {error}", "export the model again") from error
    for output, values in zip(node.proto.output, results, strict=True):
        constants[output] = values
    return True


def computed(node: Node, given: Mapping[str, Array], opsets: Opsets) -> list[Array]:
    """Return the outputs of a node of `FOLDS` as ONNX's reference computes them.

    Raises RequestError for arithmetic of other types than float32, float64 and integers: each of its operations is then
    rounded once, the same everywhere.
    """
    if node.operator == "Dropout" and node.has(2) and given[node.inputs[2]].any():
        raise node.refusal("is in training mode", "export the model for inference")
    types = {values.dtype for values in given.values()}
    if node.operator in ELEMENTWISE and not all(dtype.kind in "iu" or dtype in (FLOAT32, FLOAT64) for dtype in types):
        raise node.refusal(f"computes with {', '.join(map(str, types))} constants", "float32 or integer constants")
    from onnx.reference import ReferenceEvaluator  # here, because most files have nothing to fold

    with np.errstate(all="ignore"):  # what is not finite is refused where it is used
        graph = onnx.helper.make_graph([node.proto], "node", _untyped(given), _untyped(node.proto.output))
        results = ReferenceEvaluator(graph, opsets=dict(opsets)).run(None, dict(given))
    if not all(isinstance(values, np.ndarray | np.generic) for values in results):
        raise node.refusal("has another result than a tensor", "tensors of numbers")
    arrays = [np.asarray(values) for values in results]
    if (size := sum(values.nbytes for values in arrays)) > LARGEST:
        raise node.refusal(f"computes a constant of {size:,} bytes", f"at most {LARGEST:,} bytes")
    return arrays


def _untyped(names: Iterable[str]) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in names if name]


def _dequantised(node: Node) -> Dequantised:
    node.require_inputs(2, 3)
    codes, scale = (node.constants[name] for name in node.inputs[:2])
    zero_point = node.constants[node.inputs[2]] if node.has(2) else np.zeros(scale.shape, codes.dtype)
    attributes = node.attributes({"axis": 1, "block_size": 0, "output_dtype": 0})
    if attributes["block_size"]:
        raise node.refusal(f"block_size is {attributes['block_size']}", "one scale for the tensor or for each column")
    if scale.dtype != np.float32:
        raise node.refusal(f"the scale is {scale.dtype}", "float32 scales")
    axis = int(attributes["axis"])
    width = codes.shape[axis] if -codes.ndim <= axis < codes.ndim else 1
    if not {scale.size, zero_point.size} <= {1, width}:
        raise node.refusal(
            f"scale and zero point have shapes {scale.shape} and {zero_point.shape}, the values {codes.shape}",
            f"one of each, or one for each of the {width} along axis {axis}",
        )
    return Dequantised(node, codes, scale, zero_point, axis)


def chain(graph: Graph) -> tuple[Link, ...]:
    """Return the nodes in order; each reads the output of the one before it, and otherwise only constants.

    Raises RequestError for branches and for shapes that are more than one vector.
    """
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
        return _moved_shape(node, shape, opsets_of(graph.model))
    return shape


def _moved_shape(node: Node, shape: Shape, opsets: Opsets) -> Shape:
    """Return the shape after a node that may rename the axes but not reorder the values."""
    places = np.arange(np.prod(shape)).reshape(shape)
    given = {name: node.constants.get(name, places) for name in node.inputs if name}
    try:
        moved = computed(node, given, opsets)[0]
    except RequestError:
        raise
    except Exception as error:  # its exceptions have no common base of their own
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
