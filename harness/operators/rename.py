"""Reshape, Flatten, Identity and Dropout (ONNX): the values of a vector, in their order.

Only the shape has other axes.  Dropout is that of inference, of float32, and drops nothing; a Cast to the type of its
input is such a layer, too.

y = x
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.operators.base import Ability, Constants
from harness.operators.frames import Frames, Streaming
from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, Places
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import FLOAT32, INT64
from harness.operators.text import moving
from harness.operators.traits import Trait

COMMENT = "ONNX Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout or Cast: the values, unchanged."


@dataclass(frozen=True, eq=False)
class Rename(Move):
    """The same values in the same order; the number of vectors, the first axis, stays."""

    ONNX = tuple(("", name) for name in ("Reshape", "Flatten", "Identity", "Dropout"))
    text = Move.text.but(
        "y = x, with the same values in the same order for every vector",
        ("x", "shape"),
        moving("rename", 90, COMMENT, copies=True),
    )
    counts: ClassVar = {"Reshape": (2, 2), "Dropout": (1, 3)}
    traits = Trait.ELEMENTWISE | Trait.MOVES
    streaming = Ability(lambda layer: Streaming(layer, form=layer.frames))

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and the shape by the operator."""
        y = node.y
        node.same_type(node.x, y)
        RULES[node.proto.op_type](node)
        mask = node.outputs[1] if len(node.outputs) > 1 else None
        if mask is not None:  # of Dropout
            node.same_shape(node.x, mask)
            if node.opset >= 10:  # before, it has the type of the data
                node.is_type(mask, np.bool_)

    @classmethod
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the values in another shape."""
        return Order(x.reshape(SHAPES[node.operator](node, x)), x.reshape(-1))

    def constants(self) -> Constants:
        """Return none."""
        return {}

    def frames(self, axis: int) -> Frames:
        """Return the axis at its new place; Flatten and Reshape read all of it, and end the stream."""
        before, size = math.prod(self.input.shape[:axis]), self.input.shape[axis]
        places = [at for at, other in enumerate(self.output.shape)
                  if other == size and math.prod(self.output.shape[:at]) == before]  # fmt: skip
        ends = self.operator in ("Flatten", "Reshape")
        return Frames(None, size) if ends or not places else Frames(places[-1])


def _flat(node: Node, x: Places) -> tuple[int, ...]:
    """Return the shape that Flatten gives."""
    axis = node.attributes({"axis": 1})["axis"]
    if axis not in (1, -len(x.shape)):
        raise node.refusal(f"axis is {axis}", "axis 1: all values of one vector in one axis")
    return (x.size,)


def _shape(node: Node, x: Places) -> tuple[int, ...]:
    """Return the shape of one vector that Reshape gives, for any number of vectors."""
    allow_zero = node.attributes({"allowzero": 0})["allowzero"]
    asked = node.constant(1, "shape", [INT64])
    batch, *axes = asked.ravel().tolist() or [1]
    before = (batch, *x.shape)
    if not allow_zero:
        axes = [before[at] if size == 0 and at < len(before) else size for at, size in enumerate(axes, 1)]
    if batch == 0 and not allow_zero and axes.count(-1) == 1:
        axes[axes.index(-1)] = x.size // max(-math.prod(axes), 1)
    if batch not in ((-1,) if allow_zero else (0, -1)) or min(axes, default=0) < 1 or math.prod(axes) != x.size:
        raise node.refusal(
            f"the shape is {asked.ravel().tolist()}, of what has {x.size} values in a vector",
            f"0 or -1, for any number of vectors, then axes of {x.size} values together, such as [-1, {x.size}]",
        )
    return tuple(axes)


def _same(node: Node, x: Places) -> tuple[int, ...]:
    """Return the shape that Identity and Dropout leave; refuse Dropout of training."""
    if node.operator == "Dropout":
        node.activation(0, [FLOAT32])
    node.attributes({"ratio": 0.5, "seed": 0} if node.operator == "Dropout" else {})
    if node.has(2) and node.single(2, "training_mode", [np.dtype(np.bool_)]):
        raise node.refusal("training_mode is true", "false, as for inference")
    return x.shape


SHAPES: dict[str, Callable[[Node, Places], tuple[int, ...]]] = {
    "Reshape": _shape,
    "Flatten": _flat,
    "Identity": _same,
    "Dropout": _same,
}
"""The functions from a node and its input to the shape of the output."""


def _reshape(node: Rules) -> None:
    """State that sizes are those given; 0 copies one, -1 is what is left."""
    x, y, shape = node.x, node.y, node.input(1)
    node.equals(shape.rank, 1).equals(y.rank, shape.size(0))
    copies = not node.attribute("allowzero", 0)

    def size(axis: int, value: Size) -> None:
        node.require((value.constant or 0) >= -1, f"the shape has a size of {value}")
        if value.constant != -1:
            node.equals(y.size(axis), x.size(axis) if value.constant == 0 and copies else value)

    def whole(rank_x: int, rank_y: int) -> None:
        node.product_is_kept([x.size(axis) for axis in range(rank_x)], [y.size(axis) for axis in range(rank_y)])

    def sizes(rank: int) -> None:
        for axis in range(rank):
            node.given(shape.item(axis)).then(lambda value, axis=axis: size(axis, value))

    node.given(y.rank).then(sizes)
    node.given(x.rank, y.rank).then(whole)


def _flatten(node: Rules) -> None:
    """State that the axes before one, and those from it on, are one axis each."""
    x, y = node.x, node.y
    node.equals(y.rank, 2)

    def sizes(rank: int) -> None:
        axis = node.attribute("axis", 1)
        node.require(-rank <= axis <= rank, f"axis {axis} of {rank} axes")
        axis += rank if axis < 0 else 0
        for place, part in enumerate((range(axis), range(axis, rank))):
            node.product_is_kept([x.size(each) for each in part], [y.size(place)])

    node.given(x.rank).then(sizes)


def _kept(node: Rules) -> None:
    node.same_shape(node.x, node.y)


RULES: dict[str, Callable[[Rules], None]] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Identity": _kept,
    "Dropout": _kept,
}
"""The functions that state the rules of shapes."""
