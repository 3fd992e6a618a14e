"""Reshape and Flatten (ONNX), any type: the values of one vector keep their order, only the shape has other axes.

y = x
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from harness.operators.base import Evaluate, Selection, fields
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, INT8, INT64, UINT8, Tensor
from harness.operators.text import copying

CODES, INDICES = copying("rename", 90, "ONNX Reshape or Flatten: the values of a vector in their order, unchanged.")


@dataclass(frozen=True, eq=False)
class Rename(Selection):
    """The same values in the same order; the number of vectors, the first axis, stays."""

    ONNX = (("", "Reshape"), ("", "Flatten"))
    formula = "y = x, with the same values in the same order for every vector"
    roles = ("x", "shape")
    fragments = (CODES, INDICES)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node that keeps vectors apart."""
        reshapes = node.operator == "Reshape"
        node.require_inputs(1 + reshapes, 1 + reshapes)
        source = node.activation(0, [UINT8, INT8, FLOAT32, INT64])
        shape = _shape(node, source) if reshapes else _flat(node, source)
        return cls(**fields(node, [source], shape, source.dtype, source.bound, negative_zero=source.negative_zero))

    @property
    def transparent(self) -> bool:
        """True, as ONNX Runtime moves quantisers across it before it fuses layers."""
        return True

    def prepare(self) -> Evaluate:
        """Return the identity: activations are flat."""
        return lambda values: values


def _flat(node: Node, source: Tensor) -> tuple[int, ...]:
    """Return the shape that Flatten gives."""
    axis = node.attributes({"axis": 1})["axis"]
    if axis not in (1, -len(source.shape)):
        raise node.refusal(f"axis is {axis}", "axis 1: all values of one vector in one axis")
    return (source.size,)


def _shape(node: Node, source: Tensor) -> tuple[int, ...]:
    """Return the shape of one vector that Reshape gives, for any number of vectors."""
    allow_zero = node.attributes({"allowzero": 0})["allowzero"]
    asked = node.constant(1, "shape", [INT64])
    batch, *axes = asked.ravel().tolist() or [1]
    before = (batch, *source.shape)
    if not allow_zero:
        axes = [before[at] if size == 0 and at < len(before) else size for at, size in enumerate(axes, 1)]
    if batch == 0 and not allow_zero and axes.count(-1) == 1:
        axes[axes.index(-1)] = source.size // max(-math.prod(axes), 1)
    if batch not in ((-1,) if allow_zero else (0, -1)) or min(axes, default=0) < 1 or math.prod(axes) != source.size:
        raise node.refusal(
            f"the shape is {asked.ravel().tolist()}, of what has {source.size} values in a vector",
            f"0 or -1, for any number of vectors, then axes of {source.size} values together, such as "
            f"[-1, {source.size}]",
        )
    return tuple(axes)
