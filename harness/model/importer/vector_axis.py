"""A new axis of vectors in front of a network whose first axis cannot be the number of vectors.

An activation of shape S becomes (vectors, *S): the network's input of one vector is the whole input of the file.  The
rules of the operators are those of `axis_rules`.  ONNX Runtime computes file and result for random inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx

from harness.core.errors import RequestError
from harness.model.graph import opsets_of
from harness.model.importer import axis_rules, logic, opsets
from harness.model.importer.inputs import BATCH
from harness.model.importer.replacement import Shape
from harness.model.importer.rewriting import Rewriting
from harness.model.onnx_runtime.agreement import keeps_vectors, random_inputs, require_same_vectors
from harness.model.onnx_runtime.sessions import Stored, refused, session
from harness.model.onnx_runtime.values import computed
from harness.model.transforms.edit import declare_functions, free_initializers, name_nodes, tidy
from harness.operators.node import NEWEST_OPSET

SHORTEST = 2
"""Axes of an input of which the first can be that of vectors."""
MOST_VECTORS = 32
LARGEST = 1 << 26
"""Values of a tensor for one vector: ONNX Runtime computes all of them."""


def input_shapes(model: onnx.ModelProto, batch: int) -> dict[str, Shape]:
    """Return the shapes of the inputs, 0 for a free size; a free first size counts as `batch`."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    sizes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in inputs}
    return {name: tuple([size or batch for size in axes[:1]] + axes[1:]) for name, axes in sizes.items()}


def add_axis(
    model: onnx.ModelProto, source: Stored, name: str, shapes: Mapping[str, Shape]
) -> tuple[onnx.ModelProto, str]:
    """Return a copy of the model with an axis of vectors in front, and a note; one vector has inputs of these shapes.

    `source` is the file.  Raises RequestError for a model whose first axes are those of vectors: it is refused for
    another reason.  Raises it, with the node, for operators without a rule and where a node cannot be written for any
    number of vectors, and where ONNX Runtime computes other values than for the file.
    """
    if not shapes:
        raise RequestError(f"model {name!r} has no input", "give it one at least: what it computes is constant")
    for tensor, shape in shapes.items():
        if min(shape, default=1) < 1:
            raise RequestError(f"model {name!r}: input {tensor!r} has a free size", "fixed sizes but for the first")
    axis_rules.require_known(model.graph, name)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    name_nodes(copy.graph)
    opset = opsets_of(copy).get("", NEWEST_OPSET)
    _require_moderate(copy, shapes, name)
    _require_mixed(copy, shapes, name)
    rewriting = Rewriting(copy.graph, model=name, opset=opset, shapes=_shapes(copy, shapes, name))
    for node in copy.graph.node:
        axis_rules.write(rewriting, node)
    rewriting.close()
    logic.convert(copy)
    tidy(copy.graph)
    free_initializers(copy)
    declare_functions(copy)
    require_same_vectors(source, copy, name, shapes)
    inputs = ", ".join(f"{tensor!r} {shape}" for tensor, shape in shapes.items())
    return copy, f"a new axis of vectors is in front: one vector is all of {inputs}"


def _require_moderate(model: onnx.ModelProto, shapes: Mapping[str, Shape], name: str) -> None:
    """Refuse tensors of which ONNX's inference of shapes says that they have more than `LARGEST` values."""
    for value in model.graph.input:
        for size, number in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            size.dim_value = number
    try:
        graph = opsets.inferred(model)
    except Exception as error:  # it has no class of its own
        raise RequestError(f"model {name!r}: onnx.shape_inference fails: {error}", "export it again") from error
    for value in (*graph.input, *graph.value_info, *graph.output):
        count = math.prod(size.dim_value for size in value.type.tensor_type.shape.dim)
        if count > LARGEST:
            raise RequestError(
                f"model {name!r}: {value.name!r} has {count:,} values in one vector", f"at most {LARGEST:,} values"
            )


def _require_mixed(model: onnx.ModelProto, shapes: Mapping[str, Shape], name: str) -> None:
    """Refuse a model of which all activations have the vectors of the inputs as first axis, each for itself."""
    if any(len(shape) < SHORTEST for shape in shapes.values()) or len({shape[0] for shape in shapes.values()}) > 1:
        return
    free = onnx.ModelProto()
    free.CopyFrom(model)
    del free.graph.output[:], free.graph.value_info[:]
    activations = dict.fromkeys(shapes)
    for node in free.graph.node:
        if not activations.keys().isdisjoint(node.input):
            activations |= dict.fromkeys(filter(None, node.output))
    free.graph.output.extend(onnx.ValueInfoProto(name=tensor) for tensor in activations if tensor not in shapes)
    for value in free.graph.input:
        for size in value.type.tensor_type.shape.dim[:1]:
            size.dim_param = BATCH
    count = 1 + min(max(shape[0] for shape in shapes.values()), MOST_VECTORS)  # more than the file states
    if keeps_vectors(free, name, count):
        raise RequestError(f"model {name!r}: the first axis of all activations is that of vectors", "no further axis")


def _shapes(model: onnx.ModelProto, sizes: Mapping[str, Shape], name: str) -> dict[str, Shape]:
    """Return the shape of every activation, as ONNX Runtime computes it for inputs of these sizes."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    outputs = {value.name for value in exposed.graph.output}
    activations = [tensor for node in exposed.graph.node for tensor in node.output if tensor]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=tensor) for tensor in activations if tensor not in outputs)
    if not activations:
        return dict(sizes)
    stored = Stored(exposed)
    try:
        loaded = session(stored.path, 1, optimised=False)
        values = computed(loaded, activations, random_inputs(loaded, sizes, 1, 0))
    except Exception as error:  # its exceptions have no common base of their own
        raise refused(name, error) from error
    shapes = {tensor: np.shape(value) for tensor, value in zip(activations, values, strict=True)}
    return shapes | dict(sizes)
