"""Concat (ONNX) along the values of one vector, any type: the inputs side by side.

y = A[0], A[1], ... of the first input, then those of the second, and so on
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Evaluate, Selection, fields
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, INT8, INT64, UINT8
from harness.operators.text import copying

MOST_INPUTS = 1 << 16
CODES, INDICES = copying("concat_columns", 80, "ONNX Concat: the columns of all inputs side by side, unchanged.")


@dataclass(frozen=True, eq=False)
class Concat(Selection):
    """The values of all inputs, which have one type, one after the other."""

    ONNX = (("", "Concat"),)
    formula = "y = the columns of the first input, then those of the second, and so on"
    fragments = (CODES, INDICES)
    side_by_side = True
    elementwise = False

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node over the last axis of vectors of one type."""
        node.require_inputs(1, MOST_INPUTS)
        attributes = node.attributes({"axis": 0})
        if attributes["axis"] not in (1, -1):
            raise node.refusal(f"axis is {attributes['axis']}", "axis 1 or -1: the values of one vector")
        first = node.vector(0, [UINT8, INT8, FLOAT32, INT64])
        sources = [node.vector(position, [first.dtype]) for position in range(len(node.inputs))]
        size = sum(source.size for source in sources)
        bound = max(source.bound for source in sources)
        negative_zero = any(source.negative_zero for source in sources)
        return cls(**fields(node, sources, (size,), first.dtype, bound, negative_zero=negative_zero))

    @classmethod
    def role(cls, position: int) -> str:
        """Return the name of an input by its position."""
        return f"input {position + 1}"

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield inputs in another order."""
        right = "the inputs in the order of the node"
        if len(inputs) > 2:  # of two inputs it is the rotation
            yield FaultModel("the inputs are in the opposite order", right, np.concatenate(inputs[::-1], axis=1))
        for position in range(1, len(inputs)):
            rotated = (*inputs[position:], *inputs[:position])
            yield FaultModel(f"the inputs begin with number {position + 1}", right, np.concatenate(rotated, axis=1))

    def prepare(self) -> Evaluate:
        """Return the function that puts the values side by side."""

        def concatenate(*values: Array) -> Array:
            return np.concatenate(values, axis=1)

        return concatenate
