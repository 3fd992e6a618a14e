"""Concat (ONNX) along an axis of vectors, any type: the inputs side by side.

y = the values of the first input, then those of the second, and so on, for each index of the axes before
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Constants
from harness.operators.fault_models import FaultModel
from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, numbered
from harness.operators.rules import Rules
from harness.operators.tensor_facts import Variable
from harness.operators.text import Fragment, moving

MOST_INPUTS = 1 << 16
COMMENT = "ONNX Concat: the columns of all inputs side by side, unchanged."
BLOCKS = Fragment(
    "concat_blocks",
    82,
    """\
# ONNX Concat along an axis behind others: for each index of these, a block of each input.
fragment concat_blocks(
    x: tensor<scalar>,                      # all inputs side by side
    sizes: tensor<integer>,                 # int32 (1, inputs): the values of a block
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class Concat(Move):
    """The values of all inputs, which have one type, one after the other, in each of some blocks."""

    ONNX = (("", "Concat"),)
    text = Move.text.but(
        "y = the first input, then the second, and so on, side by side along the axis",
        fragments=(*moving("concat_columns", 80, COMMENT, copies=True), BLOCKS),
        side_by_side=True,
        role_of=lambda position: f"input {position + 1}",
        chosen=lambda layer: layer.blocks > 1,
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that sizes along the axis are added, and that others are equal."""
        concatenated(node, node.given_inputs)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node over an axis of one type, but not over the vectors."""
        node.require_inputs(1, MOST_INPUTS)
        axis = node.attributes({"axis": 0})["axis"]
        first = node.activation(0, cls.types)
        sources = [node.activation(position, [first.dtype]) for position in range(len(node.inputs))]
        rank = 1 + len(first.shape)
        if not -rank <= axis < rank or axis % rank == 0:
            raise node.refusal(f"axis is {axis}", f"axis 1 to {rank - 1}, or -1: the values of one vector")
        place = axis % rank - 1
        others = {(*source.shape[:place], *source.shape[place + 1 :]) for source in sources}
        if len(others) > 1 or any(len(source.shape) != rank - 1 for source in sources):
            shapes = " and ".join(str(source.shape) for source in sources)
            raise node.refusal(f"its inputs have shapes {shapes}", f"the same sizes on all axes but {axis}")
        size = sum(source.shape[place] for source in sources)
        shape = (*first.shape[:place], size, *first.shape[place + 1 :])
        ends, blocks = np.cumsum([source.size for source in sources]), math.prod(first.shape[:place])
        parts = np.split(numbered([ends[-1]]), ends[:-1])
        steps = np.concatenate([part.reshape(blocks, -1) for part in parts], axis=1)
        return cls.in_order(node, sources, Order(steps.reshape(shape), steps))

    @property
    def blocks(self) -> int:
        """The blocks of the output, in each of which all inputs have values."""
        return 1 if self.order.steps is None else len(self.order.steps)

    def constants(self) -> Constants:
        """Return the sizes of blocks, if there are several."""
        sizes = np.array([source.size // self.blocks for source in self.inputs], np.int32)
        return {"sizes": sizes} if self.blocks > 1 else {}

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the inputs in another order, and other orders of values."""
        right = "the inputs in the order of the node"
        if len(inputs) > 2:  # of two inputs it is the rotation
            yield FaultModel("the inputs are in the opposite order", right, self._joined(inputs[::-1]))
        for position in range(1, len(inputs)):
            rotated = (*inputs[position:], *inputs[:position])
            yield FaultModel(f"the inputs begin with number {position + 1}", right, self._joined(rotated))
        yield from super().fault_models(*inputs)

    def _joined(self, values: Sequence[Array]) -> Array:
        blocks = [x.reshape(len(x), self.blocks, -1) for x in values]
        return np.concatenate(blocks, axis=2).reshape(len(blocks[0]), -1)


def concatenated(node: Rules, parts: Sequence[Variable]) -> None:
    """State that the output has the parts one after the other along the axis."""
    node.same_type(*parts, node.y).all_equal(*(part.rank for part in parts), node.y.rank)

    def sizes(rank: int) -> None:
        axis = node.axis(node.attribute("axis", 1), rank)
        node.sum_is_zero((-1, node.y.size(axis)), *((1, part.size(axis)) for part in parts))
        for other in {*range(rank)} - {axis}:
            node.all_equal(*(part.size(other) for part in parts), node.y.size(other))

    node.given(parts[0].rank).then(sizes)
