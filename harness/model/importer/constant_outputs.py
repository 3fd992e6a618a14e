"""Outputs of a network that are constant: choices between a constant and itself, one for each vector.

The condition compares an input with itself, so that the output has the number of vectors.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.importer.replacement import Replacement
from harness.model.transforms.edit import names_of
from harness.operators.tensor import is_float


def write(to: Replacement, output: str, values: Array, source: str, kind: int) -> None:
    """Add the nodes of an output with these values, (1, ...), which read an input of the network of an ONNX type."""
    row = to.add("Reshape", [source, to.constant([0, -1])])
    first = to.add("Slice", [row, *(to.constant([number]) for number in (0, 1, 1))])
    is_false = to.add("Xor" if kind == TensorProto.BOOL else "Less", [first, first])
    condition = to.add("Reshape", [is_false, to.constant([0, *[1] * (values.ndim - 1)])])
    single = values.astype(np.float32)
    if values.dtype == np.bool_:
        to.add("Or", [condition, to.constant(values, np.bool_)], output=output)
    elif is_float(values.dtype) and values.dtype != np.float32 and (single.astype(values.dtype) == values).all():
        chosen = to.add("Where", [condition, *[to.constant(single, np.float32)] * 2])
        to.add("Cast", [chosen], output=output, to=helper.np_dtype_to_tensor_dtype(values.dtype))
    else:
        to.add("Where", [condition, *[to.constant(values, values.dtype)] * 2], output=output)


def rename(to: Replacement, before: str, after: str) -> None:
    """Give a constant of the graph another name."""
    for node in (*to.graph.node, *to.nodes):
        for names in (node.input, node.output):
            names[:] = [after if name == before else name for name in names]
    for tensor in to.graph.initializer:
        tensor.name = after if tensor.name == before else tensor.name


def convert(model: onnx.ModelProto, batch: int) -> list[str]:
    """Write the outputs that are initializers, alike for each vector, in place; return a note of them."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) > 1}
    sources = [value for value in graph.input if value.type.tensor_type.shape.dim]
    to = Replacement(graph, taken=names_of(graph) | {node.name for node in graph.node})
    outputs = [value.name for value in graph.output if value.name in constants and sources]
    written = []
    for name in outputs:
        to.name = name
        values = numpy_helper.to_array(constants[name])
        if len(values) == batch and (values == values[:1]).all():
            rename(to, name, to.free(f"{name}/value"))
            write(to, name, values[:1], sources[0].name, sources[0].type.tensor_type.elem_type)
            written.append(name)
    graph.node.extend(to.nodes)
    return [f"the constant outputs {', '.join(map(repr, written))} are those of each vector"] if written else []
