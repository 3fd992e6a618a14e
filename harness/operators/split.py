"""Split (ONNX), any type: consecutive parts of an axis of a vector, each output a layer of its own.

y_k[i, j, ...] = x[i, start_k + j, ...] for j below split[k], with start_k = split[0] + ... + split[k - 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.core.arrays import Array
from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, Places, of_steps
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import INT64
from harness.operators.text import moving


@dataclass(frozen=True, eq=False)
class Split(Move):
    """One part of the axis; all vectors."""

    ONNX = (("", "Split"),)
    any_outputs = True
    text = Move.text.but(
        "y = x[start:start + size] on one axis, for each output",
        ("x", "split"),
        moving("split_axes", 109, "ONNX Split: one of the consecutive parts of an axis of a vector."),
    )
    counts: ClassVar = {"Split": (1, 2)}

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that sizes along the axis are those of the parts, and that others are equal."""
        outputs, count = [output for output in node.outputs if output], len(node.outputs)
        node.same_type(node.x, *outputs).all_equal(node.x.rank, *(output.rank for output in outputs))

        def parts(split: Array | None, rank: int) -> None:
            axis = node.axis(node.attribute("axis", 0), rank)
            for other in {*range(rank)} - {axis}:
                node.all_equal(node.x.size(other), *(output.size(other) for output in outputs))
            if split is not None:
                node.require(len(split) == count, f"{len(split)} parts for {count} outputs")
                node.sum_is_zero((-1, node.x.size(axis)), *((1, int(size)) for size in split))
                for each, size in zip(node.outputs, split, strict=True):
                    if each is not None:
                        node.equals(each.size(axis), int(size))
            else:
                node.given(node.x.size(axis)).then(lambda size: equal_parts(axis, size))

        def equal_parts(axis: int, size: Size) -> None:
            part = -(-size // count)
            uneven = size.constant is not None and size.constant % count and not node.attribute("num_outputs", 0)
            node.require(not uneven, f"an axis of {size} values in {count} equal parts")
            for place, each in enumerate(node.outputs):
                if each is not None:
                    node.equals(each.size(axis), part if place < count - 1 else size - part * (count - 1))

        node.parameter("split", 1).then(lambda split: node.given(node.x.rank).then(lambda rank: parts(split, rank)))

    @classmethod
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the values of one output."""
        attributes = node.attributes({"axis": 0, "split": [], "num_outputs": 0})
        rank, axis, count = 1 + x.ndim, attributes["axis"], len(node.proto.output)
        if not -rank <= axis < rank or axis % rank == 0:
            raise node.refusal(f"axis is {axis}", f"axes 1 to {rank - 1}: the values of one vector")
        size = x.shape[axis % rank - 1]
        part = -(-size // count)  # the last one is smaller with num_outputs
        sizes = list(attributes["split"]) or [min(part, size - part * each) for each in range(count)]
        if node.has(1):
            sizes = node.constant(1, "split", [INT64]).tolist()
        elif not attributes["split"] and not attributes["num_outputs"] and size % count:
            raise node.refusal(f"the axis has {size} values for {count} outputs", "split or num_outputs")
        if len(sizes) != count or min(sizes) < 1 or sum(sizes) != size:
            raise node.refusal(f"the parts have the sizes {sizes}", f"{count} of 1 or more, {size} in all")
        start = sum(sizes[: node.position])
        return of_steps(x.take(range(start, start + sizes[node.position]), axis % rank - 1))
