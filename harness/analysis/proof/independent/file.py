"""The nodes of an ONNX file with their constants, read without harness.model, which the generators use."""

from __future__ import annotations

import functools
import importlib
import math
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

from harness.analysis.proof import independent
from harness.analysis.proof.independent.node import (
    GIVE_BOOLS,
    OMITTED,
    PAIRS,
    Constants,
    Node,
    Reader,
    Shaped,
    repeats_first,
)
from harness.analysis.proof.independent.windows import explicit_windows
from harness.core.arrays import Array
from harness.core.entry_points import load
from harness.core.errors import RequestError

KNOWN_SHAPES = {
    "QLinearAveragePool": "AveragePool",
    "QLinearConcat": "Concat",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
}
"""The operators of ONNX whose outputs have the shape of those of ONNX Runtime."""
GROUP = "harness.readers"
ONNX_DOMAINS = ("", "ai.onnx", "com.microsoft", "harness")
"""The domains of the operators that this package reads; `READERS` has those of others as `domain.operator`."""
RECURRENT = ("GRU", "LSTM", "RNN")
"""The operators of domain `harness` that write a state after each step."""
SELECTIONS = {"GatherElements": 1, "ScatterElements": 0}
"""The operators of domain `harness` with indices, and the input that has the size of the axis of the output."""
NUMBERS = {"CellUnion": 1, "CheckPositions": 1, "HybridSelect": 2}
"""The operators of domain `harness` that give integers, and how many."""


def nodes(onnx_bytes: bytes) -> dict[str, Node]:
    """Return the nodes of a model, by the tensor that each writes, in the file's order."""
    model = onnx.load_model_from_string(onnx_bytes)
    graph = model.graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    operators = []
    for node in graph.node:
        stored = {entry.name: entry.t for entry in node.attribute}
        if node.op_type == "Constant" and "value" in stored:
            values[node.output[0]] = numpy_helper.to_array(stored["value"])
        elif node.op_type == "DequantizeLinear" and node.input[0] in values:
            values[node.output[0]] = _dequantised(node, values)
        else:
            operators.append(node)
    tensors = {value.name: _shaped(value) for value in graph.input if value.name not in values}
    by_output: dict[str, Node] = {}
    read = {value.name for value in graph.output}.union(*(operator.input for operator in operators))
    for proto, output in ((operator, name) for operator in operators for name in _written(operator, read)):
        shape = _shape(proto, output, values, tensors, model.opset_import)
        node = replace(_node(proto, values, tensors, shape), output=output)
        if proto.op_type == "TopK" and output == proto.output[1]:
            node = replace(node, dtype=np.dtype(np.int64))
        tensors[node.output] = Shaped(shape if math.prod(shape) == node.width else (node.width,), node.dtype)
        by_output[node.output] = node
    return by_output


def _shaped(value: onnx.ValueInfoProto) -> Shaped:
    """Return the shape of one vector of an input of the model, and its type."""
    kind = value.type.tensor_type
    return Shaped(tuple(dim.dim_value for dim in kind.shape.dim[1:]), helper.tensor_dtype_to_np_dtype(kind.elem_type))


@functools.cache
def readers() -> dict[str, Reader]:
    """Return the readers of all operators: those of the modules of this package, then those of third parties.

    Raises RequestError if a third party's reader cannot be loaded, or has the name of another one.
    """
    modules = [importlib.import_module(f"{independent.__name__}.{info.name}")
               for info in pkgutil.iter_modules(independent.__path__)]  # fmt: skip
    pairs = [pair for module in modules for pair in getattr(module, "READERS", {}).items()]
    pairs += [(point.name, _checked(point.name, load(point, "reader"))) for point in entry_points(group=GROUP)]
    known: dict[str, Reader] = {}
    for operator, reader in pairs:
        if operator in known:
            raise RequestError(f"two packages read the constants of {operator} for a proof", "remove one of them")
        known[operator] = reader
    return known


def _checked(operator: str, reader: Reader) -> Reader:
    """Return a reader of a third party that raises RequestError where it fails, or gives other values than arrays."""

    def read(node: Node) -> Constants:
        try:
            return {name: np.asarray(values) for name, values in reader(node).items()}
        except Exception as error:  # a third party's function may raise anything
            raise RequestError(
                f"node {node.output}: the reader of {operator} fails: {type(error).__name__}: {error}",
                "return arrays of the constants by name, of attributes that a node does not state their defaults",
            ) from error

    return read


def _dequantised(proto: onnx.NodeProto, values: Mapping[str, Array]) -> Array:
    """Return float32 weights that a model stores as integers, with a scale for each place of an axis, or one."""
    codes, scale, *zero_points = (values[name] for name in proto.input if name)
    axis = next((entry.i for entry in proto.attribute if entry.name == "axis"), 1)
    last = np.moveaxis(codes, axis, -1) if scale.size > 1 else codes
    centred = last.astype(np.int64) - (zero_points[0].reshape(-1).astype(np.int64) if zero_points else 0)
    weights = centred.astype(np.float32) * scale.reshape(-1)
    return (np.moveaxis(weights, -1, axis) if scale.size > 1 else weights).reshape(codes.shape)


def _written(proto: onnx.NodeProto, read: set[str]) -> list[str]:
    """Return the outputs of a node that are layers: all, or of several those that a node or the network reads."""
    if proto.op_type not in ("Split", "TopK"):
        return list(proto.output[:1])
    return [output for output in proto.output if output in read]


def _shape(
    proto: onnx.NodeProto,
    output: str,
    values: Mapping[str, Array],
    tensors: Mapping[str, Shaped],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> tuple[int, ...]:
    """Return the shape of an output without vectors, as ONNX infers it; of others that of the first input."""
    sources = [name for name in proto.input if name in tensors]
    operator = proto.op_type if proto.domain in ONNX_DOMAINS else ""
    types = {name: tensors[name].dtype for name in sources}
    if operator == "QGemm":
        transposed = any(entry.name == "transB" and entry.i for entry in proto.attribute)
        return (values[proto.input[3]].shape[0 if transposed else 1],)
    if operator in NUMBERS:
        return (NUMBERS[operator],)
    if operator in KNOWN_SHAPES:
        types = dict.fromkeys(sources, np.dtype(np.float32))
        own = [entry for entry in proto.attribute if entry.name != "channels_last"]
        proto = onnx.NodeProto(op_type=KNOWN_SHAPES[operator], input=sources, output=proto.output, attribute=own)
    elif proto.domain not in ("", "ai.onnx"):
        return _shape_of_other_domain(proto, operator, values, tensors)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), [1, *tensors[name].shape])
        for name, dtype in types.items()
    ]
    constants = [numpy_helper.from_array(values[name], name) for name in proto.input if name in values]
    graph = helper.make_graph([proto], "shape", inputs, [onnx.ValueInfoProto(name=output)], constants)
    alone = helper.make_model(graph, opset_imports=opsets)
    inferred = onnx.shape_inference.infer_shapes(alone).graph.output[0].type.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in inferred[1:])


def _shape_of_other_domain(
    proto: onnx.NodeProto, operator: str, values: Mapping[str, Array], tensors: Mapping[str, Shaped]
) -> tuple[int, ...]:
    """Return the shape of an output of an operator that ONNX does not infer; `operator` is empty for unknown ones."""
    shapes = [tensors[name].shape for name in proto.input if name in tensors]
    first = list(shapes[0])
    if operator in PAIRS or not operator:
        return np.broadcast_shapes(*shapes)
    if operator in {"Select", "Where"}:
        own = [values[name].shape[-len(first) :] for name in proto.input if name in values]
        return np.broadcast_shapes(*shapes, *own)
    if operator in SELECTIONS:
        every = [tensors[name].shape if name in tensors else values[name].shape[1:] for name in proto.input]
        return (every[0][0], every[SELECTIONS[operator]][1], every[0][2])
    if operator == "NonMaxSuppression":
        return _rows_of_boxes(proto, *shapes)
    if operator.removesuffix("Steps") in RECURRENT:
        hidden = next(entry.i for entry in proto.attribute if entry.name == "hidden_size")
        # A step of a stream writes all its states, whose first values are the inputs from the fifth on.
        states = () if operator in RECURRENT else (len(proto.input) - 4,)
        return (*states, first[0], hidden)
    if operator == "Delay":
        attributes = {entry.name: entry.i for entry in proto.attribute}
        first[attributes["axis"] - 1] += attributes["history"]
    return tuple(first)


def _rows_of_boxes(proto: onnx.NodeProto, boxes: Sequence[int], scores: Sequence[int]) -> tuple[int, int]:
    """Return the shape of the rows of a NonMaxSuppression: batch, class and box, as many as each class can have."""
    most = helper.get_node_attr_value(proto, "max_output_boxes_per_class")
    return math.prod(scores[:2]) * min(most, boxes[1]), 3


def _node(
    proto: onnx.NodeProto, values: Mapping[str, Array], tensors: Mapping[str, Shaped], shape: tuple[int, ...]
) -> Node:
    """Read a node; `shape` is the shape of the output that `_shape` gives."""
    known, operator = readers(), proto.op_type
    if proto.domain not in ONNX_DOMAINS:
        operator = f"{proto.domain}.{operator}"
    if operator not in known:
        raise RequestError(
            f"node {proto.name or proto.output[0]}: a proof does not know the constants of {operator}",
            f"compare vectors with harness run, or add a reader of {operator} to a file of "
            f"harness/analysis/proof/independent/, or, under this name, to the entry points {GROUP} of its package; "
            f"known are {', '.join(sorted(known))}",
        )
    sources = tuple(name for name in proto.input if name in tensors)
    inputs = [*(values.get(name) for name in proto.input), *[None] * OMITTED]
    first = tensors[sources[0]]
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in proto.attribute}
    window = np.asarray(inputs[3]).shape[1:] if proto.op_type == "QLinearConv" else ()
    if window or "kernel_shape" in attributes:
        attributes |= explicit_windows(attributes, list(attributes.get("kernel_shape", window[1:])), first.shape, shape)
    node = Node(
        proto.op_type,
        sources,
        proto.output[0],
        math.prod(first.shape),
        first.dtype,
        math.prod(shape),
        _dtype(proto, inputs, first.dtype),
        inputs,
        window=window,
        image=first.shape,
        images=tuple(tensors[name].shape for name in sources),
        shape=shape,
        depth=sum(math.prod(tensors[name].shape) for name in sources),
        attributes=attributes,
    )
    node = replace(node, constants=known[operator](node))
    if proto.op_type in PAIRS and len(sources) > 1 and repeats_first(node):
        image = node.images[1]
        return replace(node, sources=sources[::-1], image=image, input_width=math.prod(image))
    return node


def _dtype(proto: onnx.NodeProto, inputs: Sequence[Array | None], source: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the output; but for these operators it is that of the first `source`."""
    operator = proto.op_type if proto.domain in ONNX_DOMAINS else ""
    if operator == "QuantizeLinear":
        [kind] = [entry.i for entry in proto.attribute if entry.name == "output_dtype"] or [0]
        default = helper.tensor_dtype_to_np_dtype(kind or onnx.TensorProto.UINT8)
        return default if inputs[2] is None else inputs[2].dtype
    if operator == "DequantizeLinear" or (operator == "QGemm" and inputs[7] is None):
        return np.dtype(np.float32)
    if operator == "Position":
        return np.dtype(np.uint8)
    if operator == "Cast":
        return np.dtype(helper.tensor_dtype_to_np_dtype(helper.get_node_attr_value(proto, "to")))
    if operator in GIVE_BOOLS:
        return np.dtype(np.bool_)
    of_values = inputs[0].dtype if operator in SELECTIONS and inputs[0] is not None else source
    return np.dtype(np.int64) if operator in ("ArgMax", "ArgMin", "NonMaxSuppression", *NUMBERS) else of_values
