"""`reshape`: Flatten, Reshape, Squeeze and Unsqueeze are removed or merged.

They keep the values of a vector in their order.  One that restores the shape from before is removed; of several in a
row the last remains, also with operators between them that compute each value alone (Relu).
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper

from harness.model.transforms.constants import readable
from harness.model.transforms.edit import Applied, add_constant, bypass, only_reader, writer
from harness.operators.base import Layer
from harness.operators.node import domain_of
from harness.operators.traits import Trait

OPERATORS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")


def apply(model: onnx.ModelProto, name: str) -> Applied:
    """Remove the nodes without which every consumer reads the same values in the same shape."""
    graph, network = model.graph, readable(model, name)
    shapes = {tensor.name: tensor.shape for tensor in (*network.inputs, *(layer.output for layer in network.layers))}
    layers = {layer.node: layer for layer in network.layers}
    found = [node for node in graph.node if _renames(node) and node.name in layers]
    for node in found:
        shape = shapes[node.output[0]]
        before, between = _before(graph, node, layers)
        if before and only_reader(graph, before.output[0]):
            for each in between:
                shapes[each.output[0]] = shapes[before.input[0]]
            bypass(graph, before, before.input[0])
            _write(graph, node, shape)
        source = before.input[0] if before and not between else node.input[0]
        if shapes[source] == shape:
            bypass(graph, node, source)
    return Applied(tuple(node.name for node in found if node not in graph.node))


def _renames(node: onnx.NodeProto | None) -> bool:
    return node is not None and node.op_type in OPERATORS and not domain_of(node)


def _before(
    graph: onnx.GraphProto, node: onnx.NodeProto, layers: dict[str, Layer]
) -> tuple[onnx.NodeProto | None, list[onnx.NodeProto]]:
    """Return the node of `OPERATORS` before `node`, None without one, and the nodes between them."""
    between: list[onnx.NodeProto] = []
    found = writer(graph, node.input[0])
    while found is not None and not _renames(found):
        layer = layers.get(found.name)
        if layer is None or not _is_pointwise(layer) or not only_reader(graph, found.output[0]):
            return None, []
        between.append(found)
        found = writer(graph, found.input[0])
    return found, between


def _is_pointwise(layer: Layer) -> bool:
    """Return whether the layer computes each value alone, and all of them alike."""
    numbers = all(np.ndim(constant) == 0 for constant in layer.constants().values())
    return (
        Trait.ELEMENTWISE in layer.traits
        and numbers
        and [tensor.shape for tensor in layer.inputs] == [layer.output.shape]
    )


def _write(graph: onnx.GraphProto, node: onnx.NodeProto, shape: tuple[int, ...]) -> None:
    """Make the node a Reshape to `shape`, whatever it reads."""
    constant = add_constant(graph, np.array([0, *shape], np.int64), f"{node.name}/shape")
    node.CopyFrom(onnx.helper.make_node("Reshape", [node.input[0], constant], node.output, node.name))
