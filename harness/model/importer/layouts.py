"""Recurrent operators of layout 1, which ONNX Runtime refuses, as those of layout 0 between transpositions."""

from __future__ import annotations

import onnx

from harness.model.importer.replacement import Replacement, attribute, replace_nodes, with_attributes

OPERATORS = ("LSTM", "GRU", "RNN")
EXCHANGED = [1, 0, 2]
INPUTS = {0: EXCHANGED, 5: EXCHANGED, 6: EXCHANGED}
OUTPUTS = {0: [2, 0, 1, 3], 1: EXCHANGED, 2: EXCHANGED}
"""The places of X, the states, Y and the last states, with the axes of layout 1 in those of layout 0, and back."""


def lower(model: onnx.ModelProto) -> list[str]:
    """Rewrite the nodes in place; return a note of them."""
    replaced = replace_nodes(model.graph, dict.fromkeys(OPERATORS, _transpose))
    names = [node.name or node.op_type for node in replaced]
    return [f"layout 1 of {', '.join(map(repr, names))} is 0 between Transposes"] if names else []


def _transpose(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a node of layout 1 with layout 0, and the transpositions before and behind it."""
    if not attribute(node, "layout", 0):
        return
    copy = with_attributes(node, layout=None)
    for place, perm in INPUTS.items():
        if place < len(node.input) and node.input[place]:
            copy.input[place] = to.add("Transpose", [node.input[place]], perm=perm)
    to.nodes.append(copy)
    for place, output in enumerate(node.output):
        if output:
            copy.output[place] = to.free(f"{output}/layout_0")
            to.add("Transpose", [copy.output[place]], output=output, perm=OUTPUTS[place])
