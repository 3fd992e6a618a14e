"""Replacement of Where of a bool and two values by a Cast and `harness.Where` or `Select`, of inputs of one type."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

from harness.model.transforms.edit import add_constant, declare_functions
from harness.operators.node import domain_of
from harness.operators.onnx_function import DOMAIN


def convert(model: onnx.ModelProto) -> list[str]:
    """Replace each Where, in place; return a note of them."""
    graph = model.graph
    if not any(node.op_type == "Where" and not domain_of(node) for node in graph.node):
        return []
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == TensorProto.BOOL}
    types = types_of(model)
    nodes: list[onnx.NodeProto] = []
    replaced = 0
    for node in graph.node:
        if node.op_type == "Where" and not domain_of(node):
            replaced += 1
            kind = types.get(node.output[0], TensorProto.FLOAT)
            nodes += _conditions(graph, node, constants, kind)
            node.domain = DOMAIN
            node.op_type = "Where" if kind == TensorProto.FLOAT else "Select"
        nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    declare_functions(model)
    return [f"{replaced} Where read a number of their type as condition: 1 is true, 0 is false"]


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    """Return the ONNX types of all tensors whose type can be inferred."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = (*inferred.value_info, *inferred.output)
    return {value.name: value.type.tensor_type.elem_type for value in values}


def _conditions(
    graph: onnx.GraphProto, node: onnx.NodeProto, constants: Mapping[str, TensorProto], kind: int
) -> list[onnx.NodeProto]:
    """Give a Where its condition in the type of its values; return the node that casts it, if it is no constant."""
    condition = node.input[0]
    if kind == TensorProto.BOOL:
        return []
    if condition in constants:
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        name = "float" if kind == TensorProto.FLOAT else dtype.name
        values = numpy_helper.to_array(constants[condition]).astype(dtype)
        node.input[0] = add_constant(graph, values, f"{condition}/{name}")
        return []
    node.input[0] = f"{node.output[0]}/condition"
    return [helper.make_node("Cast", [condition], [node.input[0]], node.input[0], to=kind)]
