"""Structure of any ONNX file, also with operators that `harness` cannot run: graphs, nodes, tensors, constants.

A file is shown as it is, so an invalid graph is no error here: readers of a structure must accept tensors without a
writer, repeated names and cycles.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.external_data_helper
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference
from onnx.checker import ValidationError

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.graph import decode, read_file
from harness.model.importer.tflite import as_onnx
from harness.operators.node import domain_of, element_type

MOST_NODES = 20_000
BINS = 24
FIRST_VALUES = 64
INFERRED_VALUES = 1024  # a constant of at most so many values can be a shape, which inference needs
LONGEST_TEXT = 2000  # characters of an attribute
STATISTICS_BLOCK = 1 << 20  # values


@dataclass(frozen=True)
class Distribution:
    """Values of a tensor: bounds and mean of the finite ones, and `counts` of them in BINS equal intervals."""

    count: int
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    counts: tuple[int, ...] = ()
    not_finite: int = 0


@dataclass(frozen=True)
class Constant:
    """A constant tensor: the distribution of its values, the first of them as texts, or why it cannot be read."""

    distribution: Distribution | None
    first: tuple[str, ...] = ()
    failure: str = ""

    @property
    def left_out(self) -> int:
        """The number of values after the first."""
        return self.distribution.count - len(self.first) if self.distribution else 0


@dataclass(frozen=True)
class Edge:
    """A tensor: `shape` is as the file, or ONNX's inference, states it; type and shape are empty if unknown."""

    name: str
    dtype: str = ""
    shape: tuple[str, ...] = ()
    constant: Constant | None = None
    rank_known: bool = False

    @property
    def text(self) -> str:
        """The shape and the type: `1 x 3 x 32 x 32 float32`."""
        shape = " x ".join(self.shape) if self.shape else "scalar" if self.rank_known else ""
        return " ".join(filter(None, (shape, self.dtype)))


@dataclass(frozen=True)
class Attribute:
    """An attribute of a node as text; `graph` is the index of the graph that it contains."""

    name: str
    kind: str
    text: str
    graph: int | None = None


@dataclass(frozen=True)
class Vertex:
    """A node, or an input or output of the graph: `kind` is `node`, `input` or `output`.

    `reads` and `writes` are names of tensors by position; an optional one left out is empty.  `function` is the index
    of the graph of the local function that it calls.
    """

    name: str
    kind: str = "node"
    operator: str = ""
    domain: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    text: str = ""
    function: int | None = None


@dataclass(frozen=True)
class Graph:
    """A graph: that of the model, one in an attribute, or the body of a local function."""

    title: str
    vertices: tuple[Vertex, ...]
    edges: Mapping[str, Edge]


@dataclass(frozen=True)
class Structure:
    """All graphs of a file, that of the model first, and its properties as pairs of label and text."""

    name: str
    graphs: tuple[Graph, ...]
    properties: tuple[tuple[str, str], ...]
    sha256: str
    onnx_bytes: bytes = field(repr=False)


def read(path: Path) -> Structure:
    """Return the structure of an ONNX or TFLite file; RequestError if it is none, or has more than MOST_NODES nodes."""
    content = read_file(path)
    onnx_bytes = as_onnx(content, path)
    model = decode(onnx_bytes, path.stem)
    graphs = _Reader(model, path.parent).graphs
    if (count := sum(len(graph.vertices) for graph in graphs)) > MOST_NODES:
        raise RequestError(f"model {path.stem!r} has {count:,} nodes", f"at most {MOST_NODES:,} are shown")
    sha256 = hashlib.sha256(content).hexdigest()
    properties = (("File", path.name), ("Size", f"{len(content):,} bytes"), ("SHA-256", sha256), *_properties(model))
    return Structure(path.stem, tuple(graphs), properties, sha256, onnx_bytes)


def distribution(values: Array) -> Distribution:
    """Return the distribution of numbers of any shape; of complex numbers and texts only the count."""
    flat = values.reshape(-1)
    if not flat.size or flat.dtype.kind in "OSUc":
        return Distribution(flat.size)
    blocks = [_finite(flat[start : start + STATISTICS_BLOCK]) for start in range(0, flat.size, STATISTICS_BLOCK)]
    filled = [block for block in blocks if block.size]
    if not filled:
        return Distribution(flat.size, not_finite=flat.size)
    low, high = min(float(block.min()) for block in filled), max(float(block.max()) for block in filled)
    finite = sum(block.size for block in filled)
    mean = sum(float(block.sum(dtype=np.float64)) for block in filled) / finite
    counts = np.zeros(BINS, np.int64)
    if low < high and np.isfinite(high - low):
        for block in filled:  # float64: differences of the numbers of a smaller type can leave it
            counts += np.histogram(block.astype(np.float64), BINS, (low, high))[0]
    return Distribution(flat.size, low, high, mean, tuple(counts.tolist()) if counts.any() else (), flat.size - finite)


def _finite(block: Array) -> Array:
    """Return the finite values; types that numpy itself lacks become float64."""
    numbers = block if block.dtype.kind in "iufb" and block.dtype.itemsize > 1 else block.astype(np.float64)
    return numbers if numbers.dtype.kind in "iub" else numbers[np.isfinite(numbers)]


def constant(values: Array) -> Constant:
    """Return the distribution and the first values of an array."""
    first = values.reshape(-1)[:FIRST_VALUES]
    return Constant(distribution(values), tuple(_text(value) for value in first))


def _text(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text[:LONGEST_TEXT]


def _properties(model: onnx.ModelProto) -> Iterator[tuple[str, str]]:
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    version = f"{model.producer_name} {model.producer_version}".strip()
    yield from (("Graph", model.graph.name), ("IR version", str(model.ir_version)), ("Opsets", opsets))
    yield from (("Producer", version), ("Domain", model.domain), ("Model version", str(model.model_version)))
    yield from (("Description", model.doc_string), ("Description of the graph", model.graph.doc_string))
    yield from ((f"metadata: {entry.key}", entry.value) for entry in model.metadata_props)


class _Reader:
    """Reads all graphs of a model; `folder` is that of external data."""

    def __init__(self, model: onnx.ModelProto, folder: Path) -> None:
        self._folder = folder
        self._functions = {(each.domain, each.name): index for index, each in enumerate(model.functions, 1)}
        self.graphs: list[Graph] = [Graph("", (), {})] * (1 + len(model.functions))
        stated = _inferred(model)
        self.graphs[0] = self._graph(model.graph, model.graph.name or "graph", stated, {})
        for index, function in enumerate(model.functions, 1):
            body = onnx.GraphProto(node=function.node)
            body.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
            body.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
            body.value_info.extend(function.value_info)
            self.graphs[index] = self._graph(body, f"function {function.domain}.{function.name}", {}, {})

    def _graph(
        self, graph: onnx.GraphProto, title: str, inferred: Mapping[str, Edge], outer: Mapping[str, Edge]
    ) -> Graph:
        """Return a graph; `outer` are the tensors of the graph around it, which it may read."""
        edges: dict[str, Edge] = {**outer, **inferred}
        for value in (*graph.value_info, *graph.input, *graph.output):
            edges[value.name] = _edge(value) or edges.get(value.name, Edge(value.name))
        constants = {tensor.name for tensor in graph.initializer}
        for tensor in graph.initializer:
            edges[tensor.name] = self._initializer(tensor)
        for sparse in graph.sparse_initializer:
            edges[sparse.values.name] = Edge(
                sparse.values.name, _element_type(sparse.values.data_type), tuple(map(str, sparse.dims)),
                Constant(None, failure="a sparse tensor"), rank_known=True,
            )  # fmt: skip
            constants.add(sparse.values.name)
        nodes = []
        for node in graph.node:
            if domain_of(node) == "" and node.op_type == "Constant" and len(node.output) == 1:
                edges[node.output[0]] = self._constant(node)
                constants.add(node.output[0])
            else:
                nodes.append(node)
        inputs = [value.name for value in graph.input if value.name not in constants]
        vertices = [Vertex(name, "input", writes=(name,)) for name in inputs]
        vertices += [self._vertex(node, index, edges) for index, node in enumerate(nodes)]
        vertices += [Vertex(value.name, "output", reads=(value.name,)) for value in graph.output]
        named = (name for vertex in vertices for name in (*vertex.reads, *vertex.writes) if name)
        return Graph(title, tuple(vertices), {name: edges.get(name, Edge(name)) for name in named})

    def _vertex(self, node: onnx.NodeProto, index: int, edges: Mapping[str, Edge]) -> Vertex:
        name = node.name or f"{node.op_type}_{index}"
        return Vertex(
            name,
            operator=node.op_type,
            domain=domain_of(node),
            reads=tuple(node.input),
            writes=tuple(node.output),
            attributes=tuple(self._attributes(node, name, edges)),
            text=node.doc_string,
            function=self._functions.get((node.domain, node.op_type)),
        )

    def _attributes(self, node: onnx.NodeProto, name: str, edges: Mapping[str, Edge]) -> Iterator[Attribute]:
        for attribute in node.attribute:
            kind = onnx.AttributeProto.AttributeType.Name(attribute.type).lower()
            graphs = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
            for graph in graphs:
                self.graphs.append(self._graph(graph, f"{name}, {attribute.name}", {}, edges))
                yield Attribute(attribute.name, kind, graph.name, len(self.graphs) - 1)
            if not graphs:
                yield Attribute(attribute.name, kind, self._attribute_text(attribute))

    def _attribute_text(self, attribute: onnx.AttributeProto) -> str:
        if attribute.ref_attr_name:
            return f"attribute {attribute.ref_attr_name} of the function"
        try:
            value = onnx.helper.get_attribute_value(attribute)
        except ValueError as error:
            return f"cannot be read: {error}"
        if isinstance(value, onnx.TensorProto):
            edge = self._initializer(value)
            found = edge.constant or Constant(None)
            more = f", and {found.left_out:,} more" if found.left_out else ""
            return f"{edge.text}: {', '.join(found.first)}{more}{found.failure}"
        values = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
        shown = ", ".join(map(_text, itertools.islice(values, LONGEST_TEXT // 4)))
        return shown if len(shown) <= LONGEST_TEXT else f"{shown[:LONGEST_TEXT]}…"

    def _initializer(self, tensor: onnx.TensorProto) -> Edge:
        return Edge(
            tensor.name, _element_type(tensor.data_type), tuple(map(str, tensor.dims)), self._values(tensor),
            rank_known=True,
        )  # fmt: skip

    def _values(self, tensor: onnx.TensorProto) -> Constant:
        """Return the values of a tensor in the file, or in another file of the model's folder."""
        try:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                loaded = onnx.TensorProto()
                loaded.CopyFrom(tensor)
                onnx.external_data_helper.load_external_data_for_tensor(loaded, str(self._folder))
                loaded.data_location = onnx.TensorProto.DEFAULT
                tensor = loaded
            return constant(onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError, OSError, ValidationError) as error:
            return Constant(None, failure=f"cannot be read: {str(error).splitlines()[0] if str(error) else error!r}")

    def _constant(self, node: onnx.NodeProto) -> Edge:
        """Return the tensor of a Constant node."""
        for attribute in node.attribute:
            if attribute.name == "value":
                tensor = attribute.t
                found = self._initializer(tensor)
                return Edge(node.output[0], found.dtype, found.shape, found.constant, rank_known=True)
            if attribute.name.startswith("value_"):
                values = np.asarray(onnx.helper.get_attribute_value(attribute))
                dtype = {"f": "float32", "i": "int64"}.get(values.dtype.kind, "string")
                return Edge(node.output[0], dtype, tuple(map(str, values.shape)), constant(values), rank_known=True)
        return Edge(node.output[0], constant=Constant(None, failure="a sparse tensor, or none"))


def _element_type(number: int) -> str:
    """Return the name of an element type with the number of its bits."""
    name = element_type(number)
    return {"float": "float32", "double": "float64"}.get(name, name)


def _edge(value: onnx.ValueInfoProto) -> Edge | None:
    """Return the tensor of a declaration; None if it states no type."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        other = value.type.WhichOneof("value")
        return Edge(value.name, other.removesuffix("_type")) if other else None
    sizes = tuple(dim.dim_param or (str(dim.dim_value) if dim.HasField("dim_value") else "?") for dim in kind.shape.dim)
    return Edge(value.name, _element_type(kind.elem_type), sizes, rank_known=kind.HasField("shape"))


def _inferred(model: onnx.ModelProto) -> dict[str, Edge]:
    """Return the types and shapes that ONNX infers; large constants take no part but with their type and shape."""
    skeleton = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = model.graph
    skeleton.graph.CopyFrom(onnx.GraphProto(name=graph.name, node=graph.node, input=graph.input, output=graph.output))
    skeleton.graph.value_info.extend(graph.value_info)
    inputs = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if np.prod(tensor.dims, dtype=np.float64) <= INFERRED_VALUES and not tensor.external_data:
            skeleton.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            skeleton.graph.input.append(value)
    try:
        found = onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
    except Exception:  # noqa: BLE001 - the library raises errors of several types for invalid graphs, which are shown
        return {}
    return {value.name: edge for value in found.graph.value_info if (edge := _edge(value))}
