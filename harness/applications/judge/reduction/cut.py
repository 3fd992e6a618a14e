"""Parts of a model: some layers with other inputs and one output, or with fewer channels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.model.graph import parse
from harness.model.network import Network
from harness.model.transforms.edit import tidy, writer
from harness.operators.tensor import Tensor


def activations(network: Network) -> dict[str, Tensor]:
    """Return the inputs and the outputs of all layers by their names."""
    return {tensor.name: tensor for tensor in (*network.inputs, *(layer.output for layer in network.layers))}


def part(network: Network, output: str, begin: Collection[str] = ()) -> Network:
    """Return the network that computes one activation, with the activations `begin` as inputs.

    Raises RequestError for a part that is no network of its own.
    """
    model, tensors = onnx.load_model_from_string(network.onnx_bytes), activations(network)
    graph = model.graph
    for name in begin:
        node = writer(graph, name)
        if node is not None:
            graph.node.remove(node)
    del graph.output[:]
    graph.output.append(_value(tensors[output]))
    tidy(graph)
    read = {name for node in graph.node for name in node.input}
    inputs = [name for name in tensors if name in read and writer(graph, name) is None]
    constants = {tensor.name for tensor in graph.initializer}
    del graph.input[:]
    graph.input.extend(_value(tensors[name]) for name in inputs if name not in constants)
    if begin:
        del model.metadata_props[:]  # the box is that of other inputs
    return parse(model.SerializeToString(), network.name)


def _value(tensor: Tensor) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(tensor.dtype)
    return helper.make_tensor_value_info(tensor.name, kind, ["vectors", *tensor.shape])


@dataclass(frozen=True)
class _Channels:
    """The inputs of an operator that have output channels, and their axes; scales of one value have none."""

    axes: Mapping[int, int]


OPERATORS: Mapping[str, _Channels] = {
    "MatMul": _Channels({1: -1}),
    "Gemm": _Channels({1: -1, 2: -1}),
    "QGemm": _Channels({3: -1, 4: 0, 5: 0, 6: -1}),
    "QLinearMatMul": _Channels({3: -1, 4: 0, 5: 0}),
    "Conv": _Channels({1: 0, 2: 0}),
    "QLinearConv": _Channels({3: 0, 4: 0, 5: 0, 8: 0}),
}
"""The operators whose channels can be left out, with constant weights and one group."""


def with_channels(network: Network, channels: Sequence[int]) -> Network | None:
    """Return the network whose last layer has some of its output channels; None if it is none of OPERATORS.

    Raises RequestError for a part that is no network of its own.
    """
    model = onnx.load_model_from_string(network.onnx_bytes)
    graph, layer = model.graph, network.layers[-1]
    node = writer(graph, layer.output.name)
    if node is None or node.op_type not in OPERATORS:
        return None
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if attributes.get("group", 1) != 1:
        return None
    constants = {tensor.name: tensor for tensor in graph.initializer}
    count = layer.output.shape[0]
    for place, axis in OPERATORS[node.op_type].axes.items():
        if place >= len(node.input) or node.input[place] not in constants:
            continue
        values = numpy_helper.to_array(constants[node.input[place]])
        along = 0 if attributes.get("transB") and values.ndim == 2 and place in (1, 3) else axis
        if values.ndim and values.shape[along] == count:
            name = f"{node.input[place]}_of_channels"
            graph.initializer.append(numpy_helper.from_array(_taken(values, channels, along), name))
            node.input[place] = name
    del graph.output[:]
    shape = (len(channels), *layer.output.shape[1:])
    graph.output.append(_value(Tensor(layer.output.name, shape, layer.dtype)))
    tidy(graph)
    return parse(model.SerializeToString(), network.name)


def _taken(values: Array, channels: Sequence[int], axis: int) -> Array:
    return np.ascontiguousarray(np.take(values, channels, axis=axis))
