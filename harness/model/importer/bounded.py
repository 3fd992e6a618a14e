"""Operators whose number of rows depends on the data, with a bound of rows.

The rows of ONNX come first, in their order, then rows of -1; the places of NonZero are columns.  Another node may not
read them: it would take rows of -1 for values.

NonZero counts the numbers other than 0 up to each place.  The place of number k is the number of counts up to k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx

from harness.model.importer.replacement import Replacement, Rule, attribute
from harness.model.onnx_runtime.agreement import PADDED
from harness.operators.non_max_suppression import COLUMNS, Sizes
from harness.operators.onnx_function import DOMAIN
from harness.operators.tensor import BOOL, INT64

MOST_PLACES = 2048
"""Each of them is compared with all."""


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
    shape = 1, sizes.rows, COLUMNS
    to.add(node.op_type, [boxes, scores], shape, INT64, output=node.output[0], domain=DOMAIN, **stated)
    _state_shape(to, node.output[0], shape)


def non_zero(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a NonZero as the places of all values of one vector, at most `MOST_PLACES`."""
    _require_output(to, node)
    sizes = to.shape(node.input[0])
    count, rank = math.prod(sizes), len(sizes)
    if not 0 < count <= MOST_PLACES or not rank:
        raise to.refusal(node, f"its input has {count} values in {rank} axes", f"1 to {MOST_PLACES} values")
    is_other = to.cast(to.reshaped(node.input[0], (1, count)), BOOL)
    counts = to.add("CumSum", [to.cast(is_other, INT64), to.constant(1)], (1, count))
    numbers = to.constant(np.arange(count).reshape(1, count, 1))
    is_before = to.add("LessOrEqual", [to.reshaped(counts, (1, 1, count)), numbers], (1, count, count), BOOL)
    places = to.add("ReduceSum", [to.cast(is_before, INT64), to.constant([2])], (1, count), keepdims=0)
    row, shape = to.reshaped(places, (1, 1, count)), (1, rank, count)
    steps = np.array([math.prod(sizes[axis + 1 :]) for axis in range(rank)])
    quotients = to.add("Div", [row, to.constant(steps.reshape(1, rank, 1))], shape)
    indices = to.add("Mod", [quotients, to.constant(np.array(sizes).reshape(1, rank, 1))], shape)
    is_place = to.add("Less", [row, to.constant(count)], (1, 1, count), BOOL)
    to.add("Where", [is_place, indices, to.constant(-1)], shape, output=node.output[0])
    _state_shape(to, node.output[0], shape)


def _state_shape(to: Replacement, output: str, shape: tuple[int, ...]) -> None:
    """State the shape of an output with a bound of rows."""
    for value in to.graph.output:
        if value.name == output:
            value.CopyFrom(onnx.helper.make_tensor_value_info(output, onnx.TensorProto.INT64, shape, PADDED))


def _require_output(to: Replacement, node: onnx.NodeProto) -> None:
    """Refuse a node whose rows another node reads."""
    readers = [other.name or other.op_type for other in to.graph.node if node.output[0] in other.input]
    if readers:
        raise to.refusal(
            node,
            f"its number of rows depends on the data, and node {readers[0]!r} reads it",
            f"{node.output[0]!r} as an output of the network, and what follows behind the network",
        )


RULES: Mapping[str, Rule] = {"NonMaxSuppression": non_max_suppression, "NonZero": non_zero}
