"""Transpose (ONNX), any type: the axes of a vector in another order.

y[i, j, ...] = x[k, l, ...], where axis perm[d] of x is axis d of y
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, Places, of_steps
from harness.operators.rules import Rules
from harness.operators.text import moving


@dataclass(frozen=True, eq=False)
class Transpose(Move):
    """The same values; the number of vectors stays the first axis."""

    ONNX = (("", "Transpose"),)
    text = Move.text.but(
        "y = x with its axes in the order perm",
        fragments=moving("transpose_axes", 92, "ONNX Transpose: the axes of a vector in another order."),
    )

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
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the values with the axes in another order, which keeps the first."""
        rank = 1 + x.ndim
        perm = list(node.attributes({"perm": []})["perm"]) or list(range(rank))[::-1]
        if sorted(perm) != list(range(rank)) or perm[0] != 0:
            raise node.refusal(f"perm is {perm}", f"0, for any number of vectors, then the axes 1 to {rank - 1}")
        return of_steps(x.transpose([axis - 1 for axis in perm[1:]]))
