"""ONNX -> `Network`: the typed layer list with its exact constants.

A network is a chain of layers over a batch of vectors.  Whatever cannot be reproduced bit for bit is
refused here, with the node's name and what would be accepted; later rooms trust what they are given.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped] # protobuf ships no types

from harness.errors import RequestError

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """One operator of the model and the activation that it writes.

    `node` is the ONNX node's name, `name` a unique stem [a-z][a-z0-9_]* derived from it for files and C;
    `source` and `output` are tensor names of the model.  It reads `input_width` values per vector of type
    `input_dtype` and writes `width` of type `dtype` (uint8, int8, float32 or int64).
    """

    name: str
    node: str
    operator: str
    source: str
    output: str
    input_width: int
    input_dtype: np.dtype[Any]
    width: int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class QuantizeLinear(Layer):
    """q = saturate(round_half_even(x / scale) + zero_point), float32 -> uint8 or int8 (ONNX QuantizeLinear)."""

    scale: np.float32
    zero_point: int


@dataclass(frozen=True)
class DequantizeLinear(Layer):
    """y = float32(q - zero_point) * scale, uint8 or int8 -> float32 (ONNX DequantizeLinear)."""

    scale: np.float32
    zero_point: int


@dataclass(frozen=True, eq=False)
class QGemm(Layer):
    """The quantised fully connected layer (com.microsoft QGemm), inputs (vectors, K), outputs (vectors, N).

    acc[n] = bias[n] + sum_k (a[k] - a_zero_point) * (weights[k, n] - weights_zero_point[n])    in int32
    y[n]   = saturate(round_half_even(float32(acc[n]) * multiplier[n]) + y_zero_point)          uint8, int8
    y[n]   = float32(acc[n]) * multiplier[n]                                                    float32

    `weights` is int8 or uint8 (K, N); `weights_zero_point` int32 (N,); `bias` int32 (N,); `multiplier`
    float32 (N,), computed once in float32 as ((alpha * a_scale) * b_scale[n]) / y_scale, the division
    only for an integer output.  `y_zero_point` is 0 for a float32 output.
    """

    weights: Array
    weights_zero_point: npt.NDArray[np.int32]
    bias: npt.NDArray[np.int32]
    multiplier: npt.NDArray[np.float32]
    a_zero_point: int
    y_zero_point: int
    per_column: bool


@dataclass(frozen=True)
class ArgExtremum(Layer):
    """ArgMax or ArgMin over the columns, -> int64 (vectors, 1).

    Of equal values the lowest column wins, or the highest where `last` (ONNX select_last_index).
    """

    largest: bool
    last: bool


@dataclass(frozen=True)
class Normalisation:
    """The affine map from physical inputs to network inputs: normalised = (physical - mean) / range."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    mean: tuple[float, ...]
    range: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """A model, read and found exactly reproducible.

    `box` is float32 (2, input_width): lower and upper bound of every network input.
    `sha256` is that of the ONNX file's bytes, which are kept in `onnx_bytes`.
    """

    name: str
    input_name: str
    input_width: int
    layers: tuple[Layer, ...]
    box: npt.NDArray[np.float32]
    normalisation: Normalisation | None
    metadata: dict[str, str]
    sha256: str
    onnx_bytes: bytes


UINT8, INT8, FLOAT32, INT64 = (np.dtype(name) for name in ("uint8", "int8", "float32", "int64"))

# The newest that ONNX Runtime 1.31, the reference, takes.
NEWEST_IR_VERSION = 13
NEWEST_OPSET = 26
OLDEST_OPSET = 10  # the first with QuantizeLinear


def load(path: Path) -> Network:
    """Read a model from an ONNX file; the network's name is the file's stem.

    Raises RequestError where the file cannot be read or the model cannot be reproduced bit for bit.
    """
    try:
        onnx_bytes = path.read_bytes()
    except OSError as error:
        raise RequestError(f"model {path}: {error.strerror}", "give the path of a quantised .onnx file") from error
    return parse(onnx_bytes, path.stem)


def parse(onnx_bytes: bytes, name: str) -> Network:
    """Decode and check a model given as the bytes of an ONNX file.

    Raises RequestError, naming the node, for everything that is not a chain of the supported operators with
    constant parameters, or whose arithmetic would leave the ranges in which it is exactly reproducible.
    """
    model = _decode(onnx_bytes, name)
    _require_runtime_versions(model, name)
    constants = _constants(model.graph, name)
    nodes = _nodes(model.graph, constants, name)
    source = _input(model.graph, constants, name)
    layers = _chain(nodes, source)
    _require_outputs(model.graph, layers, name)
    _require_checker(model, name)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    return Network(
        name=name,
        input_name=source.name,
        input_width=source.width,
        layers=layers,
        box=_box(metadata, layers[0], name),
        normalisation=_normalisation(metadata, source.width, name),
        metadata=metadata,
        sha256=hashlib.sha256(onnx_bytes).hexdigest(),
        onnx_bytes=onnx_bytes,
    )


def _with_stems(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers, named by unique stems of [a-z][a-z0-9_]*."""
    stems: list[str] = []
    for layer in layers:
        base = re.sub(r"[^a-z0-9]+", "_", layer.node.lower()).strip("_")[:64]
        base = base if base[:1].isalpha() else f"{layer.operator.lower()}_{base}".rstrip("_")
        candidates = itertools.chain([base], (f"{base}_{count}" for count in itertools.count(2)))
        stems.append(next(stem for stem in candidates if stem not in stems))
    return tuple(replace(layer, name=stem) for layer, stem in zip(layers, stems, strict=True))


def accumulator_bounds(layer: QGemm) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The exact bounds, int64 (N,) each, of acc[n] over all input codes a[k].

    Every term (a - a_zero_point) * (weights - weights_zero_point) can be 0, so that the bounds hold for
    every partial sum too, in any order.
    """
    codes = np.iinfo(layer.input_dtype)
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    at_lowest = (int(codes.min) - layer.a_zero_point) * weights
    at_highest = (int(codes.max) - layer.a_zero_point) * weights
    low = layer.bias + np.minimum(at_lowest, at_highest).sum(axis=0)
    high = layer.bias + np.maximum(at_lowest, at_highest).sum(axis=0)
    return low, high


# The graph around the nodes.


@dataclass(frozen=True)
class _Tensor:
    """What flows into a layer: float32, uint8 or int8 values of shape (vectors, width)."""

    name: str
    width: int
    dtype: np.dtype[Any]


def _decode(onnx_bytes: bytes, name: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(onnx_bytes)
    except DecodeError:
        model.Clear()
    damaged = not all(isinstance(text, str) for text in _texts(model))
    if damaged or not model.HasField("graph") or not model.opset_import:
        reason = "is empty" if not onnx_bytes else "is not an ONNX model, or is cut short"
        raise RequestError(f"model {name!r} {reason} ({len(onnx_bytes)} bytes)", "give a complete quantised .onnx file")
    if not model.graph.node:
        raise RequestError(f"model {name!r} has no nodes", f"give a chain of {_supported()}")
    if model.functions:
        raise RequestError(
            f"model {name!r} defines local functions", "inline them: onnx.inliner.inline_local_functions"
        )
    return model


def _texts(message: Message) -> Iterator[str | bytes]:
    """Every text of a protobuf message; one that is no UTF-8 comes as bytes."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.type == field.TYPE_STRING:
            yield from values
        elif field.type == field.TYPE_MESSAGE:
            yield from itertools.chain.from_iterable(map(_texts, values))


def _require_runtime_versions(model: onnx.ModelProto, name: str) -> None:
    opsets = [entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAIN]
    opset = max(opsets, default=NEWEST_OPSET)
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise RequestError(
            f"model {name!r} is of opset {opset}",
            f"opsets {OLDEST_OPSET} to {NEWEST_OPSET} are accepted; see onnx.version_converter",
        )
    if model.ir_version > NEWEST_IR_VERSION:
        raise RequestError(
            f"model {name!r} is of IR version {model.ir_version}",
            f"IR versions up to {NEWEST_IR_VERSION} are accepted: export with an older onnx, or lower ir_version",
        )


def _constants(graph: onnx.GraphProto, name: str) -> dict[str, Array]:
    """All constant tensors by name: the initializers, and the results of Constant nodes."""
    if graph.sparse_initializer:
        raise RequestError(f"model {name!r} has sparse initializers", "store them as dense initializers")
    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    tensors += [
        (node.output[0], attribute.t)
        for node in graph.node
        for attribute in node.attribute
        if _is_constant(node) and attribute.name == "value"
    ]
    _require_unique("tensor", [key for key, _ in tensors], name)
    return {key: _values(tensor, key, name) for key, tensor in tensors}


def _is_constant(node: onnx.NodeProto) -> bool:
    return _domain(node) == "" and node.op_type == "Constant" and len(node.output) == 1


def _values(tensor: onnx.TensorProto, tensor_name: str, name: str) -> Array:
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        raise RequestError(
            f"model {name!r}: tensor {tensor_name!r} is stored in another file",
            "save the model with its data inside: onnx.save(onnx.load(path), new_path)",
        )
    try:
        return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise RequestError(
            f"model {name!r}: tensor {tensor_name!r} is malformed: {error}", "export it again"
        ) from error


def _nodes(graph: onnx.GraphProto, constants: Mapping[str, Array], name: str) -> tuple[_Node, ...]:
    protos = [node for node in graph.node if not (_is_constant(node) and node.output[0] in constants)]
    if not any(proto.op_type in QUANTISED_OPERATORS for proto in protos):
        operators = ", ".join(sorted({proto.op_type for proto in protos})) or "constants only"
        raise RequestError(f"model {name!r} is not quantised ({operators})", HOW_TO_QUANTISE)
    names = [proto.name or f"{proto.op_type}_{index}" for index, proto in enumerate(protos)]
    _require_unique("node", names, name)
    inputs = [value.name for value in graph.input if value.name not in constants]
    _require_unique("tensor", [*constants, *inputs, *(out for proto in protos for out in proto.output if out)], name)
    return tuple(_Node(name, proto, node_name, constants) for proto, node_name in zip(protos, names, strict=True))


def _require_unique(kind: str, names: Sequence[str], model_name: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise RequestError(f"model {model_name!r}: {count} {kind}s are named {name!r}", "give each its own name")
        if not name.isprintable():
            raise RequestError(
                f"model {model_name!r}: the {kind} name {name!r} has control characters", "use printable names"
            )


def _input(graph: onnx.GraphProto, constants: Mapping[str, Array], name: str) -> _Tensor:
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(repr(value.name) for value in inputs)
        raise RequestError(
            f"model {name!r} has {len(inputs)} inputs ({names})",
            "give it exactly one, the vectors; scales, zero points, weights and bias are initializers",
        )
    kind = inputs[0].type.tensor_type
    sizes = [dim.dim_value for dim in kind.shape.dim]
    if kind.elem_type != onnx.TensorProto.FLOAT or len(sizes) != 2 or sizes[1] <= 0:
        element = _element_type(kind.elem_type)
        raise RequestError(
            f"model {name!r}: input {inputs[0].name!r} is {element} of shape {_shape(kind)}",
            "give it float32 vectors: shape (vectors, width) with a fixed width of 1 or more",
        )
    return _Tensor(inputs[0].name, sizes[1], FLOAT32)


def _element_type(number: int) -> str:
    names: dict[int, str] = {value: name.lower() for name, value in onnx.TensorProto.DataType.items()}
    return names.get(number, f"element type {number}")


def _shape(kind: onnx.TypeProto.Tensor) -> str:
    return f"({', '.join(dim.dim_param or str(dim.dim_value or '?') for dim in kind.shape.dim)})"


def _chain(nodes: Sequence[_Node], source: _Tensor) -> tuple[Layer, ...]:
    """The nodes' layers; every node reads what the node before it writes."""
    layers: list[Layer] = []
    for node in nodes:
        read = OPERATORS.get((_domain(node.proto), node.operator))
        if read is None:
            raise _unsupported(node)
        if layers and isinstance(layers[-1], ArgExtremum):
            raise node.refusal(f"comes after {layers[-1].name!r}", "ArgMax or ArgMin is the last layer")
        if not node.inputs or node.inputs[0] != source.name:
            raise _not_a_chain(node, source)
        layers.append(read(node, source))
        source = _Tensor(layers[-1].output, layers[-1].width, layers[-1].dtype)
    if not isinstance(layers[0], QuantizeLinear):
        raise nodes[0].refusal("is the first layer", "a network starts with QuantizeLinear on its float32 input")
    return _with_stems(layers)


def _not_a_chain(node: _Node, source: _Tensor) -> RequestError:
    found = repr(node.inputs[0]) if node.inputs else "nothing"
    return node.refusal(f"reads {found} where the chain is at {source.name!r}", "a chain without branches")


def _unsupported(node: _Node) -> RequestError:
    operator = f"{node.proto.domain}.{node.operator}" if node.proto.domain else node.operator
    advice = ADVICE.get(node.operator, "")
    return node.refusal(f"operator {operator} is not supported", f"{advice}supported: {_supported()}")


def _supported() -> str:
    return ", ".join(f"{domain}.{operator}" if domain else operator for domain, operator in OPERATORS)


def _domain(proto: onnx.NodeProto) -> str:
    return "" if proto.domain in DEFAULT_DOMAIN else proto.domain


def _require_outputs(graph: onnx.GraphProto, layers: Sequence[Layer], name: str) -> None:
    outputs = [value.name for value in graph.output]
    written = [layer.output for layer in layers]
    strangers = [output for output in outputs if output not in written]
    if strangers or written[-1] not in outputs:
        raise RequestError(
            f"model {name!r} gives out {', '.join(map(repr, outputs)) or 'nothing'}",
            f"its outputs are the last layer's, {written[-1]!r}, and other layers' if wanted: {', '.join(written)}",
        )


def _require_checker(model: onnx.ModelProto, name: str) -> None:
    """Whatever else ONNX itself finds wrong: types of attributes, missing opset imports, names."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        reason = str(error).strip().splitlines()[0]
        raise RequestError(f"model {name!r} is not valid ONNX: {reason}", "see onnx.checker.check_model") from error


# The nodes.


@dataclass(frozen=True)
class _Node:
    """A node of the graph with the constants that it may read, and the way to refuse it."""

    model: str
    proto: onnx.NodeProto
    name: str
    constants: Mapping[str, Array]

    @property
    def operator(self) -> str:
        return str(self.proto.op_type)

    @property
    def inputs(self) -> list[str]:
        return list(self.proto.input)

    def refusal(self, reason: str, accepted: str) -> RequestError:
        return RequestError(f"model {self.model!r}: node {self.name!r} ({self.operator}): {reason}", accepted)

    def has(self, position: int) -> bool:
        """Whether the optional input is given."""
        return position < len(self.inputs) and bool(self.inputs[position])

    def require_inputs(self, least: int, most: int) -> None:
        if not least <= len(self.inputs) <= most or not all(self.inputs[:least]):
            raise self.refusal(f"has {len(self.inputs)} inputs", f"it takes {least} to {most}")
        if len(self.proto.output) != 1 or not self.proto.output[0]:
            raise self.refusal(f"has {len(self.proto.output)} outputs", "it writes one")

    def constant(self, position: int, what: str, dtypes: Sequence[np.dtype[Any]]) -> Array:
        name = self.inputs[position]
        if name not in self.constants:
            raise self.refusal(f"the {what}, {name!r}, is not constant", "make it an initializer of the model")
        value = self.constants[name]
        if value.dtype not in dtypes:
            raise self.refusal(f"the {what} is {value.dtype}", f"{' or '.join(map(str, dtypes))} is accepted")
        return value

    def single(self, position: int, what: str, dtypes: Sequence[np.dtype[Any]]) -> Any:
        """A constant that is one number for the whole tensor."""
        value = self.constant(position, what, dtypes)
        if value.shape not in ((), (1,)):
            raise self.refusal(
                f"the {what} has shape {value.shape}", "one value for the whole tensor: shape () or (1,)"
            )
        return value.reshape(-1)[0]

    def scale(self, position: int, what: str) -> np.float32:
        return np.float32(self.normal(self.single(position, what, [FLOAT32]), what))

    def normal(self, values: Array, what: str) -> Array:
        """The float32 values, all of which must be positive, finite and normal."""
        smallest = np.finfo(np.float32).tiny
        wrong = np.atleast_1d(values)[~((np.atleast_1d(values) >= smallest) & np.isfinite(np.atleast_1d(values)))]
        if wrong.size:
            raise self.refusal(
                f"the {what} is {wrong[0]}", f"a positive, finite, normal float32: {smallest:.8g} to 3.4028235e+38"
            )
        return values

    def attributes(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes, all of which must be among `defaults`."""
        given = {entry.name: onnx.helper.get_attribute_value(entry) for entry in self.proto.attribute}
        for name in given.keys() - defaults.keys():
            raise self.refusal(f"attribute {name!r} is unknown", f"its attributes are {', '.join(defaults)}")
        for name, value in given.items():
            if not isinstance(value, type(defaults[name])):
                raise self.refusal(f"attribute {name!r} is {value!r}", f"a number such as {defaults[name]}")
        return {**defaults, **given}


def _layer(node: _Node, source: _Tensor, width: int, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The fields that all layers have."""
    return {
        "name": node.name,
        "node": node.name,
        "operator": node.operator,
        "source": source.name,
        "output": node.proto.output[0],
        "input_width": source.width,
        "input_dtype": source.dtype,
        "width": width,
        "dtype": dtype,
    }


def _require_source(node: _Node, source: _Tensor, dtypes: Sequence[np.dtype[Any]]) -> None:
    if source.dtype not in dtypes:
        raise node.refusal(f"its input {source.name!r} is {source.dtype}", f"it reads {' or '.join(map(str, dtypes))}")


def _require_per_tensor(node: _Node, attributes: Mapping[str, Any], output_types: Sequence[int]) -> None:
    """No blocks, and the element type that ONNX gives by default or one of `output_types`."""
    if attributes["block_size"] != 0:
        raise node.refusal(f"block_size is {attributes['block_size']}", "per-tensor quantisation: no block_size")
    for name, accepted in (("output_dtype", output_types), ("precision", (0, onnx.TensorProto.FLOAT))):
        if attributes.get(name, 0) not in (0, *accepted):
            kinds = " or ".join(_element_type(kind) for kind in accepted if kind)
            raise node.refusal(f"{name} is {attributes[name]}", f"{kinds}, or none")


def _quantize_linear(node: _Node, source: _Tensor) -> QuantizeLinear:
    _require_source(node, source, [FLOAT32])
    node.require_inputs(2, 3)
    # `axis` and `saturate` say nothing about per-tensor 8-bit integers.
    attributes = node.attributes({"axis": 1, "saturate": 1, "block_size": 0, "output_dtype": 0, "precision": 0})
    _require_per_tensor(node, attributes, list(CODE_TYPES))
    asked = CODE_TYPES.get(attributes["output_dtype"])
    zero_point = node.single(2, "zero point", [UINT8, INT8]) if node.has(2) else np.zeros((), asked or UINT8)[()]
    if asked not in (None, zero_point.dtype):
        raise node.refusal(f"output_dtype is {asked}, the zero point {zero_point.dtype}", "give both the same type")
    scale = node.scale(1, "scale")
    fields = _layer(node, source, source.width, zero_point.dtype)
    return QuantizeLinear(**fields, scale=scale, zero_point=int(zero_point))


def _dequantize_linear(node: _Node, source: _Tensor) -> DequantizeLinear:
    _require_source(node, source, [UINT8, INT8])
    node.require_inputs(2, 3)
    attributes = node.attributes({"axis": 1, "block_size": 0, "output_dtype": 0})
    _require_per_tensor(node, attributes, [onnx.TensorProto.FLOAT])
    zero_point = int(node.single(2, "zero point", [source.dtype])) if node.has(2) else 0
    fields = _layer(node, source, source.width, FLOAT32)
    return DequantizeLinear(**fields, scale=node.scale(1, "scale"), zero_point=zero_point)


def _arg_extremum(node: _Node, source: _Tensor) -> ArgExtremum:
    _require_source(node, source, [UINT8, INT8, FLOAT32])
    node.require_inputs(1, 1)
    attributes = node.attributes({"axis": 0, "keepdims": 1, "select_last_index": 0})
    if attributes["axis"] not in (1, -1):
        raise node.refusal(f"axis is {attributes['axis']}", "axis 1 or -1: the values of one vector")
    fields = _layer(node, source, 1, INT64)
    return ArgExtremum(**fields, largest=node.operator == "ArgMax", last=bool(attributes["select_last_index"]))


def _qgemm(node: _Node, source: _Tensor) -> QGemm:
    _require_source(node, source, [UINT8, INT8])
    node.require_inputs(6, 9)
    attributes = node.attributes({"alpha": 1.0, "transA": 0, "transB": 0})
    if attributes["transA"]:
        raise node.refusal("transA is 1", "transA 0: a vector is a row")
    weights = _weights(node, source, transposed=bool(attributes["transB"]))
    b_scale, weights_zero_point = _weight_quantisation(node, weights)
    y_scale, y_zero_point = _output_quantisation(node, source)
    layer = QGemm(
        **_layer(node, source, weights.shape[1], FLOAT32 if y_scale is None else source.dtype),
        weights=weights,
        weights_zero_point=np.broadcast_to(weights_zero_point, weights.shape[1]).astype(np.int32),
        bias=_bias(node, weights.shape[1]),
        multiplier=_multiplier(node, np.float32(attributes["alpha"]), b_scale, y_scale, weights.shape[1]),
        a_zero_point=int(node.single(2, "zero point of a", [source.dtype])),
        y_zero_point=y_zero_point,
        per_column=b_scale.size > 1,
    )
    _require_int32_accumulator(node, layer)
    return layer


def _weights(node: _Node, source: _Tensor, *, transposed: bool) -> Array:
    """B as (K, N), of a type that ONNX Runtime multiplies with the input's."""
    accepted = [UINT8, INT8] if source.dtype == UINT8 else [INT8]
    weights = node.constant(3, f"weight for a {source.dtype} input", accepted)
    if weights.ndim == 2 and transposed:
        weights = np.ascontiguousarray(weights.T)
    if weights.ndim != 2 or weights.shape[0] != source.width or weights.size == 0:
        shape = "(N, K)" if transposed else "(K, N)"
        raise node.refusal(
            f"the weights have shape {node.constants[node.inputs[3]].shape}, the input has width {source.width}",
            f"shape {shape} with K = {source.width} and N of 1 or more",
        )
    return weights


def _weight_quantisation(node: _Node, weights: Array) -> tuple[Array, Array]:
    """b_scale and b_zero_point: both of shape (), (1,) or (N,), as ONNX Runtime wants them."""
    scale = node.normal(node.constant(4, "scale of b", [FLOAT32]), "scale of b")
    zero_point = node.constant(5, "zero point of b", [weights.dtype])
    if scale.shape != zero_point.shape or scale.shape not in ((), (1,), (weights.shape[1],)):
        raise node.refusal(
            f"scale and zero point of b have shapes {scale.shape} and {zero_point.shape}",
            f"the same shape for both: (), (1,) or ({weights.shape[1]},)",
        )
    return scale, zero_point


def _bias(node: _Node, width: int) -> npt.NDArray[np.int32]:
    if not node.has(6):
        return np.zeros(width, np.int32)
    bias = node.constant(6, "bias", [np.dtype(np.int32)])
    if bias.shape not in ((), (1,), (width,), (1, width)):
        raise node.refusal(f"the bias has shape {bias.shape}", f"shape (), (1,), ({width},) or (1, {width})")
    return np.broadcast_to(bias.reshape(-1), width).astype(np.int32)


def _output_quantisation(node: _Node, source: _Tensor) -> tuple[np.float32 | None, int]:
    """y_scale and y_zero_point; (None, 0) for a float32 output."""
    if node.has(7) != node.has(8):
        raise node.refusal(
            "has only one of y_scale and y_zero_point", f"both, for a {source.dtype} output, or none, for float32"
        )
    if not node.has(7):
        return None, 0
    return node.scale(7, "scale of y"), int(node.single(8, "zero point of y", [source.dtype]))


def _multiplier(
    node: _Node, alpha: np.float32, b_scale: Array, y_scale: np.float32 | None, width: int
) -> npt.NDArray[np.float32]:
    """m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale, every operation rounded to float32."""
    with np.errstate(all="ignore"):  # what overflows or underflows is refused below
        multiplier = (alpha * node.scale(1, "scale of a")) * b_scale.reshape(-1)
        if y_scale is not None:
            multiplier = multiplier / y_scale
    node.normal(multiplier, "multiplier alpha * a_scale * b_scale / y_scale")
    return np.broadcast_to(multiplier, width).astype(np.float32)


def _require_int32_accumulator(node: _Node, layer: QGemm) -> None:
    """Refuse what could wrap; one value is kept free above, for a threshold that is never reached."""
    low, high = accumulator_bounds(layer)
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max - 1
    for column in np.flatnonzero((low < least) | (high > most)):
        raise node.refusal(
            f"the accumulator of column {column} can reach {low[column]} to {high[column]}",
            f"at most {least} to {most}, the range of int32: fewer inputs or a smaller bias",
        )


DEFAULT_DOMAIN = ("", "ai.onnx")
CODE_TYPES = {onnx.TensorProto.UINT8: UINT8, onnx.TensorProto.INT8: INT8}

OPERATORS: dict[tuple[str, str], Callable[[_Node, _Tensor], Layer]] = {
    ("", "QuantizeLinear"): _quantize_linear,
    ("com.microsoft", "QGemm"): _qgemm,
    ("", "DequantizeLinear"): _dequantize_linear,
    ("", "ArgMax"): _arg_extremum,
    ("", "ArgMin"): _arg_extremum,
}

HOW_TO_QUANTISE = (
    "quantise it: onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QOperator, "
    "op_types_to_quantize=['Gemm', 'Relu'], activation_type=QuantType.QUInt8)"
)
QUANTISED_OPERATORS = {
    "QuantizeLinear", "DequantizeLinear", "QGemm", "QLinearMatMul", "MatMulInteger", "DynamicQuantizeLinear",
}  # fmt: skip
ADVICE = {
    "Constant": "store its value as a tensor (attribute value) or as an initializer; ",
    "Gemm": "quantise it in the operator format (QuantFormat.QOperator), not as QDQ; ",
    "Relu": "quantise it too (op_types_to_quantize=['Gemm', 'Relu']): zero point 0 then does its work; ",
    "MatMul": "write MatMul and Add as one Gemm and quantise it; ",
    "QLinearMatMul": "write MatMul and Add as one Gemm before quantising: it becomes QGemm; ",
}


# The input box and the normalisation, from the metadata.


def _box(metadata: Mapping[str, str], first: Layer, name: str) -> npt.NDArray[np.float32]:
    """Bounds of the inputs, float32 (2, K); without metadata, the codes' range and one code more on each side."""
    if "input_box_low" not in metadata and "input_box_high" not in metadata:
        return _representable_box(first)
    low = _numbers(metadata, "input_box_low", first.input_width, name)
    high = _numbers(metadata, "input_box_high", first.input_width, name)
    with np.errstate(over="ignore"):
        box = np.array([low, high], np.float32)
    if not np.isfinite(box).all() or (box[0] > box[1]).any():
        raise RequestError(f"model {name!r}: the input box is {low} to {high}", "finite bounds, low <= high")
    return box


def _representable_box(first: Layer) -> npt.NDArray[np.float32]:
    assert isinstance(first, QuantizeLinear)  # noqa: S101 - _chain refuses every other first layer
    codes, largest = np.iinfo(first.dtype), float(np.finfo(np.float32).max)
    steps = (codes.min - 1 - first.zero_point, codes.max + 1 - first.zero_point)
    bounds = np.clip([step * float(first.scale) for step in steps], -largest, largest)
    return np.repeat(bounds.astype(np.float32)[:, None], first.input_width, axis=1)


def _normalisation(metadata: Mapping[str, str], width: int, name: str) -> Normalisation | None:
    keys = ("input_names", "input_units", "input_mean", "input_range")
    missing = [key for key in keys if key not in metadata]
    if len(missing) == len(keys):
        return None
    if missing:
        raise RequestError(f"model {name!r}: metadata lacks {', '.join(missing)}", f"all of {', '.join(keys)}, or none")
    spans = _numbers(metadata, "input_range", width, name)
    if 0 in spans:
        raise RequestError(f"model {name!r}: metadata input_range has a 0", "ranges other than 0")
    return Normalisation(
        names=tuple(map(str, _json_list(metadata, "input_names", width, name))),
        units=tuple(map(str, _json_list(metadata, "input_units", width, name))),
        mean=_numbers(metadata, "input_mean", width, name),
        range=spans,
    )


def _numbers(metadata: Mapping[str, str], key: str, width: int, name: str) -> tuple[float, ...]:
    values = _json_list(metadata, key, width, name)
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        raise RequestError(f"model {name!r}: metadata {key} is {metadata[key]}", "a list of finite numbers")
    return tuple(map(float, values))


def _json_list(metadata: Mapping[str, str], key: str, width: int, name: str) -> list[Any]:
    try:
        values = json.loads(metadata.get(key, ""))
    except json.JSONDecodeError:
        values = None
    if not isinstance(values, list) or len(values) != width:
        raise RequestError(
            f"model {name!r}: metadata {key} is {metadata.get(key)!r}", f"a JSON list of {width} values, one an input"
        )
    return values
