"""Gather (ONNX) with constant indices, any type: some values along an axis of a vector, in any order.

y[i, ..., j, ..., k] = x[i, ..., indices[j, ...], ..., k]      a negative index counts from the end
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, Places
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import INT64
from harness.operators.text import moving


@dataclass(frozen=True, eq=False)
class Gather(Move):
    """The values at constant indices; all vectors."""

    ONNX = (("", "Gather"),)
    text = Move.text.but(
        "y = x[indices] along an axis",
        ("x", "indices"),
        moving("gather_axes", 103, "ONNX Gather: values at constant indices of an axis."),
    )
    counts: ClassVar = {"Gather": (2, 2)}

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that the axes of the indices take the place of an axis."""
        x, indices, y = node.x, node.input(1), node.y
        node.same_type(x, y).sum_is_zero((1, x.rank), (1, indices.rank), (-1, y.rank), (-1, 1))

        def shapes(rank: int, added: int) -> None:
            axis = node.axis(node.attribute("axis", 0), rank)
            sources = [*map(x.size, range(axis)), *map(indices.size, range(added)), *map(x.size, range(axis + 1, rank))]
            for place, source in enumerate(sources):
                node.equals(y.size(place), source)
            node.given(x.size(axis), indices.value).then(within)

        def within(size: Size, values: Array) -> None:
            limit = size.constant
            inside = limit is None or values.dtype == object or ((values >= -limit) & (values < limit)).all()
            node.require(bool(inside), f"an index is beyond the axis of {size}")

        node.given(x.rank, indices.rank).then(shapes)

    @classmethod
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the values at indices within an axis other than the first, a table unless there is one index."""
        rank, axis = 1 + x.ndim, node.attributes({"axis": 0})["axis"]
        if not -rank <= axis < rank or axis % rank == 0:
            raise node.refusal(f"axis is {axis}", f"axes 1 to {rank - 1}: the values of one vector")
        indices, size = node.constant(1, "indices", [INT64, np.dtype(np.int32)]), x.shape[axis % rank - 1]
        if not indices.size or indices.min() < -size or indices.max() >= size:
            raise node.refusal(f"indices has values beyond {-size} to {size - 1}", "indices of values of the axis")
        places = x.take(indices, axis % rank - 1)
        if not places.ndim:
            raise node.refusal("it leaves no axis but the vectors", "an index of one axis, such as [0]")
        return Order(places, places if indices.size == 1 else None)
