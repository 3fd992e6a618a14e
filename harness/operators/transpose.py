"""Transpose (ONNX), any type: the axes of a vector in another order.

y[i, j, ...] = x[k, l, ...], where axis perm[d] of x is axis d of y
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.operators.base import fields
from harness.operators.move import Move, moving
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.tensor import EVERY_TYPE


@dataclass(frozen=True, eq=False)
class Transpose(Move):
    """The same values; the number of vectors stays the first axis."""

    ONNX = (("", "Transpose"),)
    formula = "y = x with its axes in the order perm"
    fragments = moving("transpose_axes", 92, "ONNX Transpose: the axes of a vector in another order.")

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the order of the axes."""
        node.same_type(node.x, node.y).equals(node.x.rank, node.y.rank)

        def axes(rank: int) -> None:
            order = list(node.attribute("perm", range(rank)[::-1]))
            node.require(sorted(order) == [*range(rank)], f"perm is {order}, of {rank} axes")
            for axis, source in enumerate(order):
                node.equals(node.y.size(axis), node.x.size(source))

        node.given(node.x.rank).then(axes)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node that keeps the first axis."""
        node.require_inputs(1, 1)
        source = node.activation(0, EVERY_TYPE)
        rank = 1 + len(source.shape)
        perm = list(node.attributes({"perm": []})["perm"]) or list(range(rank))[::-1]
        if sorted(perm) != list(range(rank)) or perm[0] != 0:
            raise node.refusal(f"perm is {perm}", f"0, for any number of vectors, then the axes 1 to {rank - 1}")
        places = np.arange(source.size, dtype=np.int32).reshape(source.shape)
        moved = places.transpose([axis - 1 for axis in perm[1:]])
        written = fields(node, [source], moved.shape, source.dtype, source.bound, negative_zero=source.negative_zero)
        return cls(**written, places=moved)

    @property
    def transparent(self) -> bool:
        """True, as ONNX Runtime moves quantisers across it before it fuses layers."""
        return True
