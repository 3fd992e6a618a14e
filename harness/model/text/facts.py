"""Facts of a model for its description: its size, its widths, the bounds of its accumulators."""

from __future__ import annotations

import itertools
import math

import onnx

from harness import operators
from harness.model.network import Network
from harness.model.text.tensors import constants
from harness.operators.base import Layer
from harness.operators.traits import Trait


def parameter_count(network: Network) -> int:
    """Return the number of weights and bias values: the constant tensors that operators read as `parameters`."""
    graph = onnx.ModelProto.FromString(network.onnx_bytes).graph
    sizes = {name: math.prod(tensor.dims) for name, tensor in constants(graph)}
    read = {node.input[position] for node in graph.node for position in _parameters(node) if position < len(node.input)}
    return sum(sizes[name] for name in read & sizes.keys())


def _parameters(node: onnx.NodeProto) -> tuple[int, ...]:
    operator = operators.of_node(node)
    return operator.text.parameters if operator else ()


def in_widths(operator: type[Layer]) -> bool:
    """Return whether it sums products, so that `widths` has its size."""
    return Trait.SUMS in operator.traits


def widths(network: Network) -> tuple[int, ...]:
    """Return the width of the inputs and of every layer with weights; those that read the same codes are one layer."""
    dense = {layer.sources: layer.size for layer in network.layers if in_widths(type(layer))}
    return (sum(tensor.size for tensor in network.inputs), *dense.values())


def short_widths(sizes: tuple[int, ...]) -> str:
    """Return widths with repeated ones counted: 5-50x8-5."""
    runs = ((size, len(list(run))) for size, run in itertools.groupby(sizes))
    return "-".join(f"{size}x{count}" if count > 1 else str(size) for size, count in runs)
