"""The graph around the nodes: bytes -> layers, each after those that it reads."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.checker
import onnx.numpy_helper
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped] # protobuf ships no types

from harness import operators
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.safe_io import read_input
from harness.model.metadata import input_box, normalisation_of
from harness.model.network import Network
from harness.model.onnx_runtime.products import fused_operators
from harness.operators.base import Layer
from harness.operators.node import DEFAULT_DOMAIN, NEWEST_OPSET, Node, domain_of, element_type
from harness.operators.tensor import EVERY_TYPE, FLOAT32, INT8, LARGEST, STORED, UINT8, Tensor, integer_limits, is_float
from harness.operators.traits import Trait

NEWEST_IR_VERSION = 13  # that ONNX Runtime 1.31, the reference, takes
INPUT_TYPES = (*EVERY_TYPE, *STORED)
OLDEST_OPSET = 10  # the first with QuantizeLinear

HOW_TO_IMPORT = "harness models import FILE -o NAME names a command that helps, if there is one"

Opsets: TypeAlias = Mapping[str, int]


def load(path: Path) -> Network:
    """Read a model from an ONNX file; the network's name is the file's stem.

    A file in another form than `parse` reads is rewritten first (`harness.model.importer.simplify`): the metadata of
    the network then name the file, and state the steps.  Raises RequestError where the file cannot be read or the model
    cannot be reproduced bit for bit.
    """
    try:
        return parse(read_file(path), path.stem)
    except RequestError as refused:
        from harness.model.importer import simplify  # here, because most files need none

        return simplify.load(path, refused)


def read_file(path: Path) -> bytes:
    """Return the bytes of an ONNX file; raise RequestError if it cannot be read."""
    try:
        path.stem.encode()  # descriptions and reports have it
        return read_input(path)
    except UnicodeEncodeError as error:
        raise RequestError(f"model {path}: the file's name is no UTF-8", "rename it") from error
    except OSError as error:
        raise RequestError(f"model {path}: {error.strerror}", "give the path of an .onnx file") from error


def parse(onnx_bytes: bytes, name: str) -> Network:
    """Decode and check a model given as the bytes of an ONNX file.

    Raises RequestError, naming the node, for everything that is not a graph of the supported operators with
    constant parameters, or whose arithmetic would leave the ranges in which it is exactly reproducible.
    """
    model = _decode(onnx_bytes, name)
    opset = _require_runtime_versions(model, name)
    _require_functions(model, opset, name)
    constants = _constants(model.graph, name)
    del model.graph.initializer[:]
    model = onnx.ModelProto.FromString(model.SerializeToString())  # a message keeps the memory of what it contained
    nodes = _nodes(model.graph, constants, name)
    sources = _inputs(model.graph, constants, name)
    layers = _layers(name, nodes, constants, sources, [value.name for value in model.graph.output], opset)
    if any(_is_dequantised(node, constants) for node in model.graph.node):
        _require_unfused(decode(onnx_bytes, name), name)
    _require_outputs(model.graph, layers, name)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    del constants  # they hold the weights, which the checker decodes once more
    _require_checker(onnx_bytes, name)
    network = Network(
        name=name,
        inputs=sources,
        layers=layers,
        box=np.empty(0),
        normalisation=normalisation_of(metadata, sum(source.size for source in sources), name),
        metadata=metadata,
        sha256=hashlib.sha256(onnx_bytes).hexdigest(),
        onnx_bytes=onnx_bytes,
    )
    return replace(network, box=network.vectors(input_box(metadata, sources, layers, name)))


def decode(onnx_bytes: bytes, name: str) -> onnx.ModelProto:
    """Decode the bytes of an ONNX file; RequestError if they are none."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(onnx_bytes)
    except DecodeError:
        model.Clear()
    damaged = not all(isinstance(text, str) for text in texts(model))
    if damaged or not model.HasField("graph") or not model.opset_import:
        reason = "is empty" if not onnx_bytes else "is not an ONNX model, or is cut short"
        raise RequestError(f"model {name!r} {reason} ({len(onnx_bytes)} bytes)", "give a complete .onnx file")
    return model


def _decode(onnx_bytes: bytes, name: str) -> onnx.ModelProto:
    model = decode(onnx_bytes, name)
    if not model.graph.node:
        raise RequestError(f"model {name!r} has no nodes", f"give a network of {_supported()}")
    return model


def opsets_of(model: onnx.ModelProto | onnx.FunctionProto) -> Opsets:
    """Return the version of each domain."""
    return {"" if entry.domain in DEFAULT_DOMAIN else entry.domain: entry.version for entry in model.opset_import}


def texts(message: Message) -> Iterator[str | bytes]:
    """Yield every text of a protobuf message; one that is no UTF-8 comes as bytes."""
    fields = _without_data(message) if isinstance(message, onnx.TensorProto) else message.ListFields()
    for field, value in fields:
        values = value if field.is_repeated else [value]
        if field.type == field.TYPE_STRING:
            yield from values
        elif field.type == field.TYPE_MESSAGE:
            yield from itertools.chain.from_iterable(map(texts, values))


def _without_data(tensor: onnx.TensorProto) -> list[tuple[Any, Any]]:
    """Return the fields that have texts, and their values, as `ListFields` does, which copies the data."""
    fields = [field for field in tensor.DESCRIPTOR.fields if field.type in (field.TYPE_STRING, field.TYPE_MESSAGE)]
    stated = [field for field in fields if field.is_repeated or tensor.HasField(field.name)]
    return [(field, getattr(tensor, field.name)) for field in stated]


def _require_runtime_versions(model: onnx.ModelProto, name: str) -> int:
    """Return the version of ONNX's own domain; refuse versions that ONNX Runtime does not take."""
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
    return opset


def _require_functions(model: onnx.ModelProto, opset: int, name: str) -> None:
    """Refuse functions that are not those of supported operators, letter for letter, and operators without theirs."""
    known = operators.by_onnx_name()
    for function in model.functions:
        operator = known.get((function.domain, function.name))
        stated = operator and operator.as_function(len(function.input), opset)
        if stated is None:
            raise RequestError(
                f"model {name!r} defines the function {function.domain}.{function.name}",
                "inline it: onnx.inliner.inline_local_functions; or put the package of the operator on the Python path",
            )
        if function != stated:
            raise RequestError(
                f"model {name!r}: the function {function.domain}.{function.name} is not that of the operator",
                "remove it from the file, and harness models import adds the right one",
            )
    defined = {(function.domain, function.name): len(function.input) for function in model.functions}
    for node in model.graph.node:
        operator = operators.of_node(node)
        needs = operator is not None and operator.as_function(len(node.input), opset) is not None
        if needs and defined.get((domain_of(node), node.op_type)) != len(node.input):
            raise RequestError(
                f"model {name!r}: there is no function {node.domain}.{node.op_type} of {len(node.input)} inputs",
                "harness models import adds it",
            )


def _constants(graph: onnx.GraphProto, name: str) -> dict[str, Array]:
    """Return all constant tensors by name: the initializers, and the results of Constant nodes."""
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
    constants = {key: values_of(tensor, key, name) for key, tensor in tensors}
    for node in graph.node:
        if _is_dequantised(node, constants):
            _require_unique("tensor", [*constants, node.output[0]], name)
            constants[node.output[0]] = _dequantised(Node(name, node, node.name or node.output[0], constants, {}))
    return constants


def _is_constant(node: onnx.NodeProto) -> bool:
    return domain_of(node) == "" and node.op_type == "Constant" and len(node.output) == 1


def _is_dequantised(node: onnx.NodeProto, constants: Mapping[str, Array]) -> bool:
    """Return whether the node is a DequantizeLinear of constants."""
    is_operator = domain_of(node) == "" and node.op_type == "DequantizeLinear"
    return is_operator and len(node.output) == 1 and all(not name or name in constants for name in node.input)


def _dequantised(node: Node) -> Array:
    """Return float32(float32(code - zero_point) * scale), with one scale for the tensor or for each place of an axis.

    ONNX Runtime 1.31 quantises float weights of Conv, ConvTranspose and Gemm between codes, but not these.
    """
    node.require_inputs(2, 3)
    attributes = node.attributes({"axis": 1, "block_size": 0, "output_dtype": 0})
    node.require_per_tensor(attributes, (onnx.TensorProto.FLOAT,))
    codes = node.constant(0, "integers", [UINT8, INT8, np.dtype(np.int32)])
    scale = node.normal(node.constant(1, "scale", [FLOAT32]), "scale")
    zero_point = node.constant(2, "zero point", [codes.dtype]) if node.has(2) else np.zeros((), codes.dtype)
    axis, sizes = attributes["axis"], {scale.size, zero_point.size} - {1}
    if sizes and not (-codes.ndim <= axis < codes.ndim and sizes == {codes.shape[axis]}):
        raise node.refusal(
            f"scale and zero point have shapes {scale.shape} and {zero_point.shape}, the integers {codes.shape}",
            f"one for the tensor, or one for each place of axis {axis}",
        )
    along = (-1, *(1,) * (codes.ndim - 1 - axis % max(codes.ndim, 1)))
    scale, zero_point = (values.reshape(() if values.size == 1 else along) for values in (scale, zero_point))
    with np.errstate(over="ignore"):
        product: Array = (codes.astype(np.int64) - zero_point).astype(np.float32) * scale
    return product


def require_inside(tensor: onnx.TensorProto, tensor_name: str, name: str) -> None:
    """Refuse a tensor in another file: its content is not part of the model's bytes, nor of their hash."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        raise RequestError(
            f"model {name!r}: tensor {tensor_name!r} is stored in another file",
            "save the model with its data inside: onnx.save(onnx.load(path), new_path)",
        )


def values_of(tensor: onnx.TensorProto, tensor_name: str, name: str) -> Array:
    """Return the values of a tensor that the file stores, itself and whole; raise RequestError for any other."""
    require_inside(tensor, tensor_name, name)
    try:
        return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise RequestError(
            f"model {name!r}: tensor {tensor_name!r} is malformed: {error}", "export it again"
        ) from error


def _require_unfused(model: onnx.ModelProto, name: str) -> None:
    """Refuse groups with constants of DequantizeLinear that ONNX Runtime computes as quantised operators."""
    operators_of_codes = fused_operators(model, name)
    if operators_of_codes:
        raise RequestError(
            f"model {name!r}: ONNX Runtime computes its groups of DequantizeLinear, operator and QuantizeLinear as "
            f"{', '.join(sorted(operators_of_codes))}",
            HOW_TO_IMPORT,
        )


def fold_weights(model: onnx.ModelProto, name: str) -> None:
    """Replace every DequantizeLinear of constants by its float32 values."""
    constants = _constants(model.graph, name)
    for node in [node for node in model.graph.node if _is_dequantised(node, constants)]:
        model.graph.node.remove(node)
        model.graph.initializer.append(onnx.numpy_helper.from_array(constants[node.output[0]], node.output[0]))


def _nodes(graph: onnx.GraphProto, constants: Mapping[str, Array], name: str) -> dict[str, onnx.NodeProto]:
    """Return the nodes that compute, in order, by names that are unique."""
    protos = [
        node
        for node in graph.node
        if not (
            node.output and node.output[0] in constants and (_is_constant(node) or _is_dequantised(node, constants))
        )
    ]
    if not protos:
        raise RequestError(f"model {name!r} has constants only", f"give a network of {_supported()}")
    names = [proto.name or f"{proto.op_type}_{index}" for index, proto in enumerate(protos)]
    _require_unique("node", names, name)
    inputs = [value.name for value in graph.input if value.name not in constants]
    _require_unique("tensor", [*constants, *inputs, *(out for proto in protos for out in proto.output if out)], name)
    return dict(zip(names, protos, strict=True))


def _require_unique(kind: str, names: Sequence[str], model_name: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise RequestError(f"model {model_name!r}: {count} {kind}s are named {name!r}", "give each its own name")
        if not name.isprintable():
            raise RequestError(
                f"model {model_name!r}: the {kind} name {name!r} has control characters", "use printable names"
            )


def _inputs(graph: onnx.GraphProto, constants: Mapping[str, Array], name: str) -> tuple[Tensor, ...]:
    inputs = [value for value in graph.input if value.name not in constants]
    if not inputs:
        raise RequestError(f"model {name!r} has no input", "give it one at least: what it computes is constant")
    if len(counts := stated_counts(inputs)) > 1:
        raise RequestError(
            f"model {name!r}: the first sizes of its inputs are {', '.join(map(str, counts))}",
            "one number of vectors, or free first sizes",
        )
    return tuple(_of_value(value, name) for value in inputs)


def stated_counts(inputs: Sequence[onnx.ValueInfoProto]) -> list[int]:
    """Return the numbers of vectors that the first sizes of inputs state, without those that are free."""
    sizes = {size.dim_value for value in inputs for size in value.type.tensor_type.shape.dim[:1]}
    return sorted(sizes - {0})


def _of_value(value: onnx.ValueInfoProto, name: str) -> Tensor:
    kind = value.type.tensor_type
    sizes, dtype = [dim.dim_value for dim in kind.shape.dim], _input_type(kind.elem_type)
    if dtype is None or len(sizes) < 2 or min(sizes[1:]) <= 0:
        raise RequestError(
            f"model {name!r}: input {value.name!r} is {element_type(kind.elem_type)} of shape {_shape(kind)}",
            f"give it vectors, (vectors, width), or images, (vectors, channels, height, width), of fixed sizes and a "
            f"type of {', '.join(map(str, INPUT_TYPES))}; scales, zero points, weights and bias are initializers",
        )
    bound = LARGEST if dtype == FLOAT32 else math.inf
    return Tensor(value.name, tuple(sizes[1:]), dtype, bound, negative_zero=is_float(dtype))


def _input_type(element: int) -> np.dtype[Any] | None:
    """Return the type of an input; None for one that no activation has."""
    types = {onnx.helper.np_dtype_to_tensor_dtype(dtype): dtype for dtype in INPUT_TYPES}
    return types.get(onnx.TensorProto.DataType.ValueType(element))


def _shape(kind: onnx.TypeProto.Tensor) -> str:
    return f"({', '.join(dim.dim_param or str(dim.dim_value or '?') for dim in kind.shape.dim)})"


def _layers(
    model_name: str,
    nodes: Mapping[str, onnx.NodeProto],
    constants: Mapping[str, Array],
    sources: Sequence[Tensor],
    outputs: Sequence[str],
    opset: int,
) -> tuple[Layer, ...]:
    """Return the nodes' layers; every node reads the network's inputs `sources`, or outputs of earlier nodes.

    Of a node with several outputs, one that nothing reads and that is none of the network's `outputs` is no layer.
    """
    layers: dict[str, Layer] = {}
    needed = {*outputs, *(tensor for proto in nodes.values() for tensor in proto.input)}
    activations, bounds = {source.name: source for source in sources}, _Bounds(sources, layers)
    writer = partial(_behind, writers=layers)
    for name, proto in nodes.items():
        node = Node(model_name, proto, name, constants, activations, opset=opset, bounds=bounds, writer=writer)
        operator = operators.of_node(proto)
        if operator is None:
            raise _unsupported(node)
        positions = [position for position, tensor in enumerate(proto.output) if tensor in needed]
        for position in positions or [0]:  # most operators refuse several
            part = replace(node, position=position)
            layer = operator.read(part)
            layers[layer.output.name] = layer
            activations[layer.output.name] = layer.output
    return _with_stems(tuple(layers.values()))


class _Bounds:
    """Bounds of activations for all inputs of the network, computed when a node asks for them.

    Of weighted sums, whose ends have no sign, and of codes and indices they are those of the tensor.
    """

    def __init__(self, sources: Sequence[Tensor], layers: Mapping[str, Layer]) -> None:
        self._layers = layers
        self._known = {source.name: _of_tensor(source) for source in sources}

    def __call__(self, name: str) -> tuple[float, float]:
        """Return the least and the greatest value of a float32 activation."""
        waiting = [name]
        while waiting:
            layer = self._layers.get(waiting[-1])
            if layer is None or waiting[-1] in self._known:
                waiting.pop()
            elif Trait.SUMS in layer.traits or (layer.dtype != FLOAT32 and not layer.errors.rising):
                self._known[waiting[-1]] = _of_tensor(layer.output)
            elif missing := [source for source in layer.sources if source not in self._known]:
                waiting += missing
            else:
                ends = zip(*(self._known[source] for source in layer.sources), strict=True)
                low, high = layer.errors.output_bounds(*ends)
                if layer.dtype == FLOAT32:
                    low = np.maximum(np.where(np.isnan(low), -np.float32(np.inf), low), np.float32(layer.errors.least))
                self._known[waiting[-1]] = low, high
        low, high = self._known[name]
        return float(low.min()), float(np.where(np.isnan(high), np.inf, high).max())


def _of_tensor(tensor: Tensor) -> tuple[Array, Array]:
    if not is_float(tensor.dtype):
        low, high = (np.full((1, tensor.size), limit, tensor.dtype) for limit in integer_limits(tensor.dtype))
        return low, high
    return np.full((1, tensor.size), -tensor.bound, np.float32), np.full((1, tensor.size), tensor.bound, np.float32)


def _behind(tensor: str, writers: Mapping[str, Layer]) -> Layer | None:
    """Return the layer that writes the tensor, but for transparent ones."""
    writer = writers.get(tensor)
    while writer is not None and writer.runtime.transparent:
        writer = writers.get(writer.sources[0])
    return writer


def _unsupported(node: Node) -> RequestError:
    operator = f"{node.proto.domain}.{node.operator}" if node.proto.domain else node.operator
    own = "put the package of the operator on the Python path (docs/add-an-operator.md); " if node.proto.domain else ""
    return node.refusal(f"operator {operator} is not supported", f"{own}{HOW_TO_IMPORT}; supported: {_supported()}")


def _supported() -> str:
    return ", ".join(f"{domain}.{operator}" if domain else operator for domain, operator in operators.by_onnx_name())


def _with_stems(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the layers, named by unique stems of [a-z][a-z0-9_]*."""
    stems: list[str] = []
    for layer in layers:
        base = re.sub(r"[^a-z0-9]+", "_", layer.node.lower()).strip("_")[:64]
        base = base if base[:1].isalpha() else f"{layer.operator.lower()}_{base}".rstrip("_")
        candidates = itertools.chain([base], (f"{base}_{count}" for count in itertools.count(2)))
        stems.append(next(stem for stem in candidates if stem not in stems))
    return tuple(replace(layer, name=stem) for layer, stem in zip(layers, stems, strict=True))


def _require_outputs(graph: onnx.GraphProto, layers: Sequence[Layer], name: str) -> None:
    """Require that every activation is an output or read by a layer, and that all outputs are activations."""
    outputs = [value.name for value in graph.output]
    needed = {*outputs, *(source for layer in layers for source in layer.sources)}
    unused = [layer for layer in layers if layer.output.name not in needed]
    activations = [layer.output.name for layer in layers]
    if unused or not set(outputs) <= set(activations):
        idle = "".join(f"; node {layer.node!r} ({layer.operator}) is for nothing" for layer in unused)
        raise RequestError(
            f"model {name!r} gives out {', '.join(map(repr, outputs)) or 'nothing'}{idle}",
            "make every result that no node reads an output, and no other tensors than results: "
            f"{', '.join(activations)}",
        )


def with_shapeless(model: onnx.ModelProto, reason: str) -> str:
    """Return a reason of ONNX's checker with the names of inputs and outputs without a shape, if it is about these."""
    if "'shape'" not in reason:
        return reason
    values = (*model.graph.input, *model.graph.output)
    names = [repr(value.name) for value in values if not value.type.tensor_type.HasField("shape")]
    return f"{reason.rstrip('.')}; these inputs and outputs have no shape: {', '.join(names)}"


def _require_checker(onnx_bytes: bytes, name: str) -> None:
    """Refuse a model that ONNX's own checker rejects: types of attributes, missing opset imports, names."""
    try:
        onnx.checker.check_model(onnx_bytes)  # of a decoded model it would make these bytes again
    except onnx.checker.ValidationError as error:
        reason = with_shapeless(decode(onnx_bytes, name), str(error).strip().splitlines()[0])
        raise RequestError(f"model {name!r} is not valid ONNX: {reason}", "see onnx.checker.check_model") from error
