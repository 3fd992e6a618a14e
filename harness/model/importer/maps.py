"""Nodes that map an activation by constant matrices, in the place of one node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from harness.model.transforms.edit import add_constant
from harness.operators.node import Node

LARGEST = 1 << 24
"""Entries of a matrix."""
Matrix: TypeAlias = npt.NDArray[np.float64]


@dataclass(eq=False)
class Maps:
    """Nodes that map an activation `tensor`, one after the other; `shape` is that of one vector of the last result.

    `count` is the first size of the file, the number of vectors; 0 if it is free.
    """

    graph: onnx.GraphProto
    node: Node
    tensor: str
    shape: tuple[int, ...]
    count: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> None:
        """Add a node; an empty name among its inputs is the last result."""
        name = f"{self.node.output}/{operator}_{len(self.nodes)}"
        names = [tensor or self.tensor for tensor in inputs]
        self.nodes.append(helper.make_node(operator, names, [name], name, **attributes))
        self.tensor = name

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Return the name of a new initializer."""
        return add_constant(self.graph, np.asarray(values, dtype), f"{self.node.output}/constant")

    def reshape(self, *shape: int) -> None:
        """Give a vector another shape."""
        self.add("Reshape", "", self.constant([0, *shape]))
        self.shape = shape

    def exchange(self, axis: int, other: int) -> None:
        """Exchange two axes of a vector."""
        order = list(range(len(self.shape)))
        order[axis], order[other] = other, axis
        if axis != other:
            self.add("Transpose", "", perm=[0, *(1 + place for place in order)])
            self.shape = tuple(self.shape[place] for place in order)

    def along(self, axis: int, matrix: Matrix) -> None:
        """Multiply the values along an axis of a vector by a matrix, (values of the result, values)."""
        if matrix.size > LARGEST:
            raise self.node.refusal(f"its matrix has {matrix.size:,} entries", f"at most {LARGEST:,}")
        last = len(self.shape) - 1
        if axis == last - 1:
            self.add("MatMul", self.constant(matrix, np.float32), "")
        else:
            self.exchange(axis, last)
            self.add("MatMul", "", self.constant(matrix.T, np.float32))
        shape = list(self.shape)
        shape[axis if axis == last - 1 else last] = len(matrix)
        self.shape = tuple(shape)
        if axis < last - 1:
            self.exchange(axis, last)

    def finish(self) -> list[onnx.NodeProto]:
        """Return the nodes, the last of which writes the output of the node of the file."""
        if not self.nodes:
            self.add("Identity", "")
        self.nodes[-1].output[0] = self.node.output
        return self.nodes
