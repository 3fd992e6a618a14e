"""Replacement of Where of a bool and two float32 by a Cast and `harness.Where`, whose inputs have one type."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.model.transforms.edit import add_constant, declare_functions
from harness.operators.node import domain_of
from harness.operators.onnx_function import DOMAIN


def convert(model: onnx.ModelProto) -> list[str]:
    """Replace each Where of float32, in place; return a note of them."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == TensorProto.BOOL}
    nodes: list[onnx.NodeProto] = []
    replaced = 0
    for node in graph.node:
        if node.op_type == "Where" and not domain_of(node):
            replaced += 1
            nodes += _conditions(graph, node, constants)
            node.domain = DOMAIN
        nodes.append(node)
    if not replaced:
        return []
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    declare_functions(model)
    return [f"{replaced} Where read a float32 as condition: 1 is true, 0 is false"]


def _conditions(
    graph: onnx.GraphProto, node: onnx.NodeProto, constants: Mapping[str, TensorProto]
) -> list[onnx.NodeProto]:
    """Give a Where its condition as float32; return the node that casts it, if it is no constant."""
    condition = node.input[0]
    if condition in constants:
        values = numpy_helper.to_array(constants[condition]).astype(np.float32)
        node.input[0] = add_constant(graph, values, f"{condition}/float")
        return []
    node.input[0] = f"{node.output[0]}/condition"
    return [helper.make_node("Cast", [condition], [node.input[0]], node.input[0], to=TensorProto.FLOAT)]
