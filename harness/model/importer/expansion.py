"""The nodes that replace a node of a graph, and what is known of the tensors that they read and write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.analysis.propagation import Propagation
from harness.model.transforms.edit import add_constant
from harness.operators.onnx_function import DOMAIN
from harness.operators.tensor import FLOAT32

Shape = tuple[int, ...]


class Unknown(Exception):
    """A node whose shapes, types or constants are not known, or that has no rule of its form."""


@dataclass(eq=False)
class Expansion:
    """The nodes that replace a node of a graph, which is changed; tensors of nodes that were added are known, too."""

    graph: onnx.GraphProto
    propagation: Propagation
    name: str = ""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    types: dict[str, np.dtype[Any]] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def shape(self, tensor: str) -> Shape:
        """Return the shape of a tensor; raise Unknown."""
        known = self.shapes.get(tensor, self.propagation.facts.of(tensor).shape)
        if known is None or 0 in known:
            raise Unknown(tensor)
        return known

    def dtype(self, tensor: str) -> np.dtype[Any]:
        """Return the type of a tensor; raise Unknown."""
        if tensor in self.types:
            return self.types[tensor]
        number = self.propagation.facts.of(tensor).type
        if not number:
            raise Unknown(tensor)
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))

    def size_of(self, tensor: str) -> int:
        """Return the number of values of a tensor; raise Unknown."""
        return math.prod(self.shape(tensor))

    def values(self, tensor: str) -> Array | None:
        """Return the values of a constant, None for an activation."""
        return self.constants.get(tensor, self.propagation.facts.of(tensor).concrete)

    def required(self, node: onnx.NodeProto, position: int) -> Array:
        """Return the values of an input that must be constant; raise Unknown."""
        values = self.values(node.input[position]) if position < len(node.input) else None
        if values is None:
            raise Unknown(node.name)
        return values

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Return a new constant."""
        array = np.asarray(values, dtype)
        name = add_constant(self.graph, array, f"{self.name}/constant")
        self.shapes[name], self.types[name], self.constants[name] = array.shape, array.dtype, array
        return name

    def add(self, operator: str, inputs: Sequence[str], shape: Shape, dtype: Any = None, **attributes: Any) -> str:
        """Add a node, and return its output of this shape, and of the type of its first input by default."""
        domain = DOMAIN if operator in ("GatherElements", "ScatterElements") else ""
        output = f"{self.name}/{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], output, domain=domain, **attributes))
        self.shapes[output] = shape
        self.types[output] = self.dtype(inputs[0]) if dtype is None else np.dtype(dtype)
        return output

    def reshaped(self, tensor: str, shape: Shape) -> str:
        """Return the tensor in another shape."""
        if self.shape(tensor) == shape:
            return tensor
        values = self.values(tensor)
        if values is not None:
            return self.constant(values.reshape(shape), values.dtype)
        return self.add("Reshape", [tensor, self.constant(shape)], shape)

    def cast(self, tensor: str, dtype: np.dtype[Any]) -> str:
        """Return the tensor in another type."""
        if self.dtype(tensor) == dtype:
            return tensor
        values = self.values(tensor)
        if values is not None:
            return self.constant(values, dtype)
        return self.add("Cast", [tensor], self.shape(tensor), dtype, to=helper.np_dtype_to_tensor_dtype(dtype))

    def inside(self, index: str, size: int, dtype: np.dtype[Any]) -> str:
        """Return indices from -size to size - 1, in a type; raise RequestError for constants beyond."""
        values = self.values(index)
        if values is not None:
            if values.size and (values.min() < -size or values.max() >= size):
                raise RequestError(
                    f"node {self.name!r}: indices from {values.min()} to {values.max()} of an axis with {size} places",
                    f"indices from {-size} to {size - 1}",
                )
            return self.constant(values, dtype)
        for kind in dict.fromkeys((self.dtype(index), dtype)):
            if kind != FLOAT32:  # bounds of integers are not known behind a Cast from others
                limits = [self.constant(limit, kind) for limit in (-size, size - 1)]
                index = self.add("Clip", [self.cast(index, kind), *limits], self.shape(index))
        return self.cast(index, dtype)

    def gathered(self, data: str, index: str, forms: tuple[Shape, Shape]) -> str:
        """Return values at indices that are places, with these shapes of four axes, along the third one."""
        of_data, of_index = forms
        tensors = [self.reshaped(tensor, form) for tensor, form in zip((data, index), forms, strict=True)]
        shape = max(of_data[0], of_index[0]), of_data[1], of_index[2], of_data[3]
        return self.add("GatherElements", tensors, shape)

    def picked(self, tensor: str, places: Array) -> str:
        """Return the values of an activation at constant places among all of them in a row; -1 counts from the end."""
        shape, size = self.shape(tensor), math.prod(self.shape(tensor))
        lead = (1,) * (shape[:1] == places.shape[:1] == (1,) and places.ndim > 1)  # it can be the number of vectors
        row, indices = self.reshaped(tensor, (*lead, size)), self.constant(places.reshape(-1))
        taken = self.add("Gather", [row, indices], (*lead, places.size), axis=len(lead))
        return self.reshaped(taken, places.shape)
