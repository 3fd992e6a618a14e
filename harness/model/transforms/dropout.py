"""`dropout`: Dropout of inference and Identity are removed; their output is their input."""

from __future__ import annotations

import onnx

from harness.model.transforms.edit import Applied, bypass, named, outputs, readers
from harness.operators.node import domain_of

OPERATORS = ("Dropout", "Identity")


def apply(model: onnx.ModelProto, name: str) -> Applied:  # noqa: ARG001 - as every transform
    """Remove the nodes, but for those whose mask is read and those between an input and an output."""
    graph = model.graph
    done, kept = [], []
    for node in [node for node in graph.node if node.op_type in OPERATORS and not domain_of(node)]:
        if any(mask in outputs(graph) or readers(graph, mask) for mask in list(node.output)[1:] if mask):
            kept.append(f"{named(node)}: its mask is read")
        elif bypass(graph, node, node.input[0]):
            done.append(node.name)
        else:
            kept.append(f"{named(node)} makes an output of the network of its input or of another output")
    return Applied(tuple(done), tuple(kept))
