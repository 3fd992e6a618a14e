"""Computation of what depends on shapes and constants only, and removal of types that are known.

A CastLike becomes a Cast.  A Cast goes away whose input has its type, or had it before a Cast to a wider one.  So do
inputs of a model that only state a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.helper

from harness.core.errors import RequestError
from harness.model.analysis.folding import captured, fold
from harness.model.analysis.propagation import Propagation, propagate
from harness.model.importer import branches
from harness.model.importer.simplification import Simplified, listed
from harness.model.transforms.edit import bypass, outputs, writer
from harness.operators.node import domain_of

QUANTISERS = ("DequantizeLinear", "QuantizeLinear")
SUMS = {"ReduceSum"}
"""Operators of constants whose order of additions ONNX leaves open."""


def state_types(model: onnx.ModelProto, propagation: Propagation) -> int:
    """Make each CastLike a Cast to the type of its second input, in place; return their number.

    Inputs of the model that nothing else reads go away.
    """
    nodes = [node for node in model.graph.node if node.op_type == "CastLike" and not domain_of(node)]
    types = [propagation.facts.of(node.input[1]).type for node in nodes]
    removed = set()
    for node, number in zip(nodes, types, strict=True):
        if number:
            removed.add(node.input[1])
            node.op_type = "Cast"
            del node.input[1:]
            node.attribute.append(onnx.helper.make_attribute("to", number))
    read = {tensor for node in model.graph.node for tensor in (*node.input, *captured(node))}
    unread = removed - read - outputs(model.graph)
    for value in [value for value in model.graph.input if value.name in unread]:
        model.graph.input.remove(value)
    return len(list(filter(None, types)))


def remove(simplified: Simplified) -> list[str]:
    """Remove each Cast to a type that its input has, in place; return a note of them."""
    model, propagation, removed = simplified.model, simplified.propagation, list[str]()
    for node in [node for node in model.graph.node if node.op_type == "Cast" and not domain_of(node)]:
        before = writer(model.graph, node.input[0])
        sources = [node.input[0]]
        if before is not None and before.op_type == "Cast" and not domain_of(before):
            sources.append(before.input[0])
        types = [_type(propagation, name) for name in sources]
        result = _type(propagation, node.output[0])
        for source, dtype in zip(sources, types, strict=True):
            keeps = dtype is not None and dtype == result and types[0] is not None and np.can_cast(dtype, types[0])
            if keeps and bypass(model.graph, node, source):
                removed.append(node.name or node.output[0])
                break
    return [f"removed {listed(removed)}, Cast to a type that its input has"] if removed else []


def _type(propagation: Propagation | None, tensor: str) -> np.dtype[Any] | None:
    number = propagation.facts.of(tensor).type if propagation else None
    return onnx.helper.tensor_dtype_to_np_dtype(number) if number else None


def compute_constants(simplified: Simplified) -> list[str]:
    """Fold until no control flow is left that depends on no data; keep the facts where steps need them.

    Each CastLike becomes a Cast.
    """
    removed: dict[str, None] = {}
    casts_to_types = 0
    propagation: Propagation | None = None
    while _is_foldable(simplified.model.graph) or branches.has_control_flow(simplified.model.graph):
        propagation = facts_of(simplified.model)
        _require_consistent(propagation, simplified.name)
        count = state_types(simplified.model, propagation)
        casts_to_types += count
        for operator in _constant_nodes(propagation):
            removed.setdefault(operator)
        before = simplified.model.graph
        shapes = {value.name: _first_size(value) for value in (*before.input, *before.output)}
        del before  # it holds the weights
        simplified.model = fold(simplified.model, propagation, "sinks")[0]
        graph = simplified.model.graph
        _drop_empty(graph)
        for value in (*graph.input, *graph.output):
            for size in value.type.tensor_type.shape.dim[:1]:
                size.CopyFrom(shapes[value.name])
        replaced = branches.inline_branches(graph, propagation)
        if not (replaced or count):
            break
        removed |= dict.fromkeys(replaced)
    simplified.is_near |= not SUMS.isdisjoint(removed)
    names = [operator for operator in removed if operator != "Constant"]
    notes = [f"{casts_to_types} CastLike are Cast to a type that is known"] if casts_to_types else []
    notes += [f"computed what depends on shapes and constants only: {listed(names)}"] if names else []
    if not any(node.op_type in ("Cast", "Reshape", "Resize") for node in simplified.model.graph.node):
        return notes
    propagation = None  # the facts before, which have values of constants
    propagation = facts_of(simplified.model)
    simplified.propagation = None if propagation.contradictions else propagation  # another reader names what is wrong
    return notes


def _drop_empty(graph: onnx.GraphProto) -> None:
    """Remove constants without values from what Concat joins, in place."""
    empty = {tensor.name for tensor in graph.initializer if 0 in tensor.dims}
    for node in graph.node:
        if node.op_type == "Concat" and not empty.isdisjoint(node.input) and not empty.issuperset(node.input):
            node.input[:] = [tensor for tensor in node.input if tensor not in empty]


def _is_foldable(graph: onnx.GraphProto) -> bool:
    """Return whether a node reads constants only, a shape, or is a constant of another form than a tensor."""
    known = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if domain_of(node) or node.op_type in QUANTISERS:
            continue
        if node.op_type in ("Shape", "Size", "Constant", "CastLike") or all(
            tensor in known for tensor in node.input if tensor
        ):
            return True
    return False


def facts_of(model: onnx.ModelProto) -> Propagation:
    """Return the facts for one vector; stated shapes of outputs do not count, which other tools leave behind."""
    stated = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in model.graph.output]
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    inputs_of_vectors = [value for value in model.graph.input if value.type.tensor_type.shape.dim]
    free = [value.name for value in inputs_of_vectors if not _first_size(value).HasField("dim_value")]
    propagation = propagate(model, [(tensor, "shape", ([1], False)) for tensor in free])
    del model.graph.output[:]
    model.graph.output.extend(stated)
    return propagation


def _require_consistent(propagation: Propagation, name: str) -> None:
    """Refuse shapes and types that no tensor has."""
    if propagation.contradictions:
        error = propagation.contradictions[0]
        raise RequestError(
            f"model {name!r}: node {error.node!r}: {error.problem} ({error.second.rule}"
            + (f"; {error.first})" if error.first else ")"),
            "export it again, with shapes that fit each other",
        )


def _first_size(value: onnx.ValueInfoProto) -> onnx.TensorShapeProto.Dimension:
    sizes = value.type.tensor_type.shape.dim
    size = onnx.TensorShapeProto.Dimension()
    if len(sizes):
        size.CopyFrom(sizes[0])
    return size


def _constant_nodes(propagation: Propagation) -> Iterator[str]:
    """Yield the operators of the nodes whose outputs have known values."""
    for node in propagation.nodes.values():
        if any(node.output) and all(
            propagation.facts.of(tensor).concrete is not None for tensor in node.output if tensor
        ):
            yield node.op_type
