"""Operators whose number of rows depends on the data, as operators of domain harness with a bound of rows.

The rows of ONNX come first, in their order, then rows of -1.  Another node may not read them: it would take rows of -1
for values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from harness.model.importer.replacement import Replacement, Rule, attribute
from harness.operators.non_max_suppression import COLUMNS, Sizes
from harness.operators.onnx_function import DOMAIN
from harness.operators.tensor import INT64


def non_max_suppression(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a NonMaxSuppression with a constant bound and constant thresholds; all batches belong to one vector."""
    _require_output(to, node)
    (batches, count, corners), (_, classes, _) = (to.shape(tensor) for tensor in node.input[:2])
    stated = {"center_point_box": attribute(node, "center_point_box", 0)}
    for position, name in enumerate(("max_output_boxes_per_class", "iou_threshold", "score_threshold"), start=2):
        if position >= len(node.input) or not node.input[position]:
            continue
        values = to.values(node.input[position])
        if values is None or values.size != 1:
            raise to.refusal(
                node,
                f"its {name} is no constant number: the number of rows has no bound, or a threshold is data",
                f"a constant {name}",
            )
        stated[name] = values.reshape(-1)[0].item()
    sizes = Sizes(batches, classes, count, min(stated.get("max_output_boxes_per_class", 0), count))
    if sizes.most < 1:
        raise to.refusal(node, "max_output_boxes_per_class is 0, which selects no box", "a constant of 1 or more")
    boxes = to.reshaped(node.input[0], (1, batches, count, corners))
    scores = to.reshaped(node.input[1], (1, batches, classes, count))
    _bound(to, node, [boxes, scores], (sizes.rows, COLUMNS), stated)


def _bound(
    to: Replacement, node: onnx.NodeProto, inputs: list[str], shape: tuple[int, ...], stated: dict[str, Any]
) -> None:
    """Add the node with a bound, which writes an output of the network of this shape for each vector."""
    to.add(node.op_type, inputs, (1, *shape), INT64, output=node.output[0], domain=DOMAIN, **stated)
    for value in to.graph.output:
        if value.name == node.output[0]:
            sizes = [1, *shape]
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, onnx.TensorProto.INT64, sizes))


def _require_output(to: Replacement, node: onnx.NodeProto) -> None:
    """Refuse a node whose rows another node reads."""
    readers = [other.name or other.op_type for other in to.graph.node if node.output[0] in other.input]
    if readers:
        raise to.refusal(
            node,
            f"its number of rows depends on the data, and node {readers[0]!r} reads it",
            f"{node.output[0]!r} as an output of the network, and what follows behind the network",
        )


RULES: Mapping[str, Rule] = {"NonMaxSuppression": non_max_suppression}
