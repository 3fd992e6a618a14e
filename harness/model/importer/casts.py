"""CastLike as Cast, and removal of a Cast to the type that its input has, or had before a Cast to a wider type.

Inputs of a model that only state a type go away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper

from harness.model.analysis.folding import captured
from harness.model.analysis.propagation import Propagation
from harness.model.transforms.edit import bypass, outputs, writer
from harness.operators.node import domain_of


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


def remove(model: onnx.ModelProto, propagation: Propagation | None) -> list[str]:
    """Remove each such Cast, in place; return their names."""
    removed = []
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
    return removed


def _type(propagation: Propagation | None, tensor: str) -> np.dtype[Any] | None:
    number = propagation.facts.of(tensor).type if propagation else None
    return onnx.helper.tensor_dtype_to_np_dtype(number) if number else None
