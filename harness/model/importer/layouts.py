"""Recurrent operators of layout 1, which ONNX Runtime refuses, as those of layout 0 between transpositions."""

from __future__ import annotations

import onnx
from onnx import helper

from harness.model.importer.added import replace_nodes
from harness.model.importer.rewriting import attribute
from harness.operators.node import domain_of

OPERATORS = ("LSTM", "GRU", "RNN")
EXCHANGED = [1, 0, 2]
INPUTS = {0: EXCHANGED, 5: EXCHANGED, 6: EXCHANGED}
OUTPUTS = {0: [2, 0, 1, 3], 1: EXCHANGED, 2: EXCHANGED}
"""The places of X, the states, Y and the last states, with the axes of layout 1 in those of layout 0, and back."""


def lower(model: onnx.ModelProto) -> list[str]:
    """Rewrite the nodes in place; return a note of them."""
    names: list[str] = []

    def replacement(_: int, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        if node.op_type not in OPERATORS or domain_of(node) or not attribute(node, "layout", 0):
            return [node]
        names.append(node.name or node.op_type)
        return _transposed(node)

    replace_nodes(model.graph, replacement)
    return [f"layout 1 of {', '.join(map(repr, names))} is 0 between Transposes"] if names else []


def _transposed(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return the node with layout 0, and the transpositions before and behind it."""
    stem = node.name or next(filter(None, node.output))
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    kept = [entry for entry in node.attribute if entry.name != "layout"]
    del copy.attribute[:]
    copy.attribute.extend(kept)
    before, behind = [], []
    for place, perm in INPUTS.items():
        if place < len(node.input) and node.input[place]:
            copy.input[place] = f"{stem}/layout_0/input_{place}"
            before.append(helper.make_node("Transpose", [node.input[place]], [copy.input[place]], perm=perm))
    for place, output in enumerate(node.output):
        if output:
            copy.output[place] = f"{output}/layout_0"
            behind.append(helper.make_node("Transpose", [copy.output[place]], [output], perm=OUTPUTS[place]))
    return [*before, copy, *behind]
