"""Squeeze and Unsqueeze (ONNX): the values of a vector, without some axes of size 1, or with more.

y = x
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.node import Node
from harness.operators.order import Order, Places
from harness.operators.rename import Rename
from harness.operators.rules import Rules
from harness.operators.tensor import INT64
from harness.operators.tensor_facts import Variable


@dataclass(frozen=True, eq=False)
class Squeeze(Rename):
    """The same values in the same order."""

    ONNX = (("", "Squeeze"), ("", "Unsqueeze"))
    counts: ClassVar = {"Squeeze": (1, 2), "Unsqueeze": (1, 2)}

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that the shape without some axes of size 1 is the other one."""
        node.same_type(node.x, node.y)
        if node.proto.op_type == "Squeeze":
            _squeeze(node, node.x, node.y)
        else:
            _squeeze(node, node.y, node.x, undone=True)

    @classmethod
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the values in another shape."""
        shape = (_squeezed if node.operator == "Squeeze" else _unsqueezed)(node, x)
        return Order(x.reshape(shape), x.reshape(-1))


def _squeezed(node: Node, x: Places) -> tuple[int, ...]:
    """Return the shape without some axes of size 1."""
    rank, axes = 1 + len(x.shape), _axes(node)
    if not axes or any(axis % rank == 0 or not -rank <= axis < rank for axis in axes):
        raise node.refusal(f"axes is {axes}", f"some of the axes 1 to {rank - 1}: the first one is the vectors")
    left = {axis % rank for axis in axes}
    if any(x.shape[axis - 1] != 1 for axis in left):
        sizes = ", ".join(map(str, x.shape))
        raise node.refusal(f"axes is {axes}, the input has shape (vectors, {sizes})", "axes of size 1")
    return tuple(size for axis, size in enumerate(x.shape, 1) if axis not in left)


def _unsqueezed(node: Node, x: Places) -> tuple[int, ...]:
    """Return the shape with more axes of size 1."""
    axes = _axes(node)
    rank = 1 + len(x.shape) + len(axes)
    added = {axis % rank for axis in axes if -rank <= axis < rank}
    if not axes or len(added) < len(axes) or 0 in added:
        raise node.refusal(f"axes is {axes}", f"some of the axes 1 to {rank - 1}: the first one is the vectors")
    sizes = iter(x.shape)
    return tuple(1 if axis in added else next(sizes) for axis in range(1, rank))


def _axes(node: Node) -> list[int]:
    """Return the axes, an input or, before opset 13, an attribute."""
    attribute: list[int] = node.attributes({"axes": []})["axes"]
    return node.constant(1, "axes", [INT64]).ravel().tolist() if node.has(1) else list(attribute)


def _squeeze(node: Rules, x: Variable, y: Variable, *, undone: bool = False) -> None:
    """State that `y` has the axes of `x` without some of size 1, all of them if none are given."""

    def of_axes(rank: int, axes: Array) -> None:
        removed = {node.axis(int(axis), rank) for axis in axes}
        node.require(len(removed) == len(axes), f"axes {axes.tolist()} are given twice")
        left = [axis for axis in range(rank) if axis not in removed]
        node.equals(x.rank, rank).equals(y.rank, len(left))
        for axis in removed:
            node.equals(x.size(axis), 1)
        for place, axis in enumerate(left):
            node.equals(y.size(place), x.size(axis))

    def of_ones(rank: int) -> None:
        node.given(*map(x.size, range(rank))).then(
            lambda *sizes: (
                of_axes(rank, np.array([axis for axis, size in enumerate(sizes) if size.constant == 1], int))
                if all(size.constant is not None for size in sizes)
                else None
            )
        )

    def state(axes: Array | None) -> None:
        axes = axes if axes is None else np.atleast_1d(axes)  # ONNX's functions have numbers
        if axes is None:
            node.require(not undone, "it has no axes").given(x.rank).then(of_ones)
            return
        numbers = np.atleast_1d(axes)  # functions of ONNX give one number
        if undone:
            node.given(y.rank).then(lambda rank: of_axes(rank + len(numbers), numbers))
        else:
            node.given(x.rank).then(lambda rank: of_axes(rank, numbers))

    node.parameter("axes", 1).then(state)
