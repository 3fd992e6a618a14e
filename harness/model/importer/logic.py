"""Replacement of Where of a bool and two values by a Cast and `harness.Where` or `Select`, of inputs of one type."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.model.importer import opsets
from harness.model.importer.replacement import Replacement, has_rule, replace_nodes
from harness.model.transforms.edit import declare_functions
from harness.operators.onnx_function import DOMAIN


def convert(model: onnx.ModelProto) -> list[str]:
    """Replace each Where, in place; return a note of them."""
    if not has_rule(model.graph, ("Where",)):
        return []
    types = opsets.types_of(model)

    def write(to: Replacement, node: onnx.NodeProto) -> None:
        kind = types[node.output[0]].tensor_type.elem_type if node.output[0] in types else TensorProto.FLOAT
        name = "Where" if kind == TensorProto.FLOAT else "Select"
        condition = node.input[0] if kind == TensorProto.BOOL else _condition(to, node, kind)
        to.add(name, [condition, *node.input[1:]], domain=DOMAIN)
        to.nodes[-1].name = node.name

    replaced = replace_nodes(model.graph, {"Where": write})
    declare_functions(model)
    return [f"{len(replaced)} Where read a number of their type as condition: 1 is true, 0 is false"]


def _condition(to: Replacement, node: onnx.NodeProto, kind: int) -> str:
    """Return the condition of a Where in an ONNX type: constants stay constants."""
    condition = node.input[0]
    constants = {tensor.name: tensor for tensor in to.graph.initializer if tensor.data_type == TensorProto.BOOL}
    if condition in constants:
        return to.constant(numpy_helper.to_array(constants[condition]), helper.tensor_dtype_to_np_dtype(kind))
    return to.add("Cast", [condition], output=to.free(f"{node.output[0]}/condition"), to=kind)
