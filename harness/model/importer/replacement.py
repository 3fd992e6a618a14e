"""The nodes in the place of a node of an ONNX graph, and what is known of the tensors that they read and write."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.analysis.propagation import Propagation
from harness.model.transforms.edit import free_name, names_of
from harness.operators.node import AXES_ARE_INPUT, domain_of
from harness.operators.tensor import FLOAT32
from harness.operators.tensor_facts import Facts

Shape = tuple[int, ...]


class Unknown(Exception):
    """A node whose shapes, types or constants are not known, or that has no rule of its form."""


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return the value of an attribute."""
    return attributes_of(node).get(name, default)


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the values of the attributes that a node states."""
    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}


def with_attributes(node: onnx.NodeProto, **values: Any) -> onnx.NodeProto:
    """Return a copy of a node with other values of these attributes, without those that are None."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(entry for entry in node.attribute if entry.name not in values)
    stated = {name: value for name, value in values.items() if value is not None}
    copy.attribute.extend(helper.make_attribute(name, value) for name, value in stated.items())
    return copy


@dataclass(eq=False)
class Replacement:
    """The nodes that replace a node of a graph, to which constants are added; all names begin with `name`.

    `facts` are those of the tensors of the graph, `taken` its names.  Shapes, types and values of new tensors are in
    `shapes`, `types` and `constants`.
    """

    graph: onnx.GraphProto
    name: str = ""
    facts: Facts = field(default_factory=Facts)
    taken: set[str] = field(default_factory=set)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    types: dict[str, np.dtype[Any]] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def refusal(self, node: onnx.NodeProto, reason: str, accepted: str) -> RequestError:
        """Return the error to raise for the node."""
        return RequestError(f"node {node.name or node.output[0]!r} ({node.op_type}): {reason}", accepted)

    def shape(self, tensor: str) -> Shape:
        """Return the shape of a tensor; raise Unknown."""
        known = self.shapes.get(tensor, self.facts.of(tensor).shape)
        if known is None or 0 in known:
            raise Unknown(tensor)
        return known

    def dtype(self, tensor: str) -> np.dtype[Any]:
        """Return the type of a tensor; raise Unknown."""
        if tensor in self.types:
            return self.types[tensor]
        number = self.facts.of(tensor).type
        if not number:
            raise Unknown(tensor)
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))

    def size_of(self, tensor: str) -> int:
        """Return the number of values of a tensor; raise Unknown."""
        return math.prod(self.shape(tensor))

    def values(self, tensor: str) -> Array | None:
        """Return the values of a constant, None for an activation."""
        return self.constants.get(tensor, self.facts.of(tensor).concrete)

    def required(self, node: onnx.NodeProto, position: int) -> Array:
        """Return the values of an input that must be constant; raise Unknown."""
        values = self.values(node.input[position]) if position < len(node.input) else None
        if values is None:
            raise Unknown(node.name)
        return values

    def free(self, name: str) -> str:
        """Return a name for a tensor or a node: `name`, or the like of it that is not taken."""
        free = free_name(name, self.taken)
        self.taken.add(free)
        return free

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Return a new constant."""
        name = self.free(f"{self.name}/constant")
        self.state(name, np.asarray(values, dtype))
        return name

    def state(self, name: str, array: Array) -> None:
        """Make a tensor a constant."""
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        self.shapes[name], self.types[name], self.constants[name] = array.shape, array.dtype, array

    def add(
        self,
        operator: str,
        inputs: Iterable[str],
        shape: Shape | None = None,
        dtype: Any = None,
        *,
        output: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node; return its output, by default a new name, of this shape, and of the type of its first input."""
        own, read = self.free(f"{self.name}/{operator}_{len(self.nodes)}"), [*inputs]
        written = output or own
        self.nodes.append(helper.make_node(operator, read, [written], own, domain=domain, **attributes))
        if shape is not None:
            self.shapes[written] = shape
            self.types[written] = self.dtype(read[0]) if dtype is None else np.dtype(dtype)
        return written

    def finish(self, node: onnx.NodeProto) -> None:
        """Let the last node write the first output of the node of the file, unless another one does."""
        if self.nodes and not any(node.output[0] in part.output for part in self.nodes):
            self.nodes[-1].output[0] = node.output[0]

    def reduced(self, operator: str, tensor: str, axes: Sequence[int], opset: int, shape: Shape | None = None) -> str:
        """Return a reduction along axes, which stay with size 1, in the form of the opset."""
        if opset < AXES_ARE_INPUT:
            return self.add(operator, [tensor], shape, axes=axes)
        return self.add(operator, [tensor, self.constant(axes)], shape)

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

    def picked(self, tensor: str, places: Array) -> str:
        """Return the values of an activation at constant places among all of them in a row; -1 counts from the end."""
        shape, size = self.shape(tensor), self.size_of(tensor)
        lead = (1,) * (shape[:1] == places.shape[:1] == (1,) and places.ndim > 1)  # it can be the number of vectors
        row, indices = self.reshaped(tensor, (*lead, size)), self.constant(places.reshape(-1))
        taken = self.add("Gather", [row, indices], (*lead, places.size), axis=len(lead))
        return self.reshaped(taken, places.shape)


Rule = Callable[[Replacement, onnx.NodeProto], object]
"""Function that adds the nodes of a node; it adds none, or raises Unknown, for one that stays."""


def has_rule(graph: onnx.GraphProto, rules: Container[str], domain: str = "") -> bool:
    """Return whether rules name the operator of a node, of a domain."""
    return any(node.op_type in rules and domain_of(node) == domain for node in graph.node)


def replace_nodes(
    graph: onnx.GraphProto, rules: Mapping[str, Rule], propagation: Propagation | None = None, domain: str = ""
) -> list[onnx.NodeProto]:
    """Write the nodes of the rule of its operator in the place of each node of a domain; return the replaced nodes."""
    if not has_rule(graph, rules, domain):
        return []
    facts = Facts() if propagation is None else propagation.facts
    taken = names_of(graph) | {node.name for node in graph.node}
    nodes, replaced = list[onnx.NodeProto](), list[onnx.NodeProto]()
    for place, node in enumerate(graph.node):
        to = Replacement(graph, node.name or f"{node.op_type}_{place}", facts, taken)
        rule, count = rules.get(node.op_type), len(graph.initializer)
        try:
            if rule is not None and domain_of(node) == domain:
                rule(to, node)
        except Unknown:
            del to.nodes[:], graph.initializer[count:]
        to.finish(node)
        if to.nodes or node.output[0] in to.constants:
            replaced.append(node)
            nodes += to.nodes
        else:
            nodes.append(node)
    if replaced:
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        replaced = [onnx.NodeProto.FromString(node.SerializeToString()) for node in replaced]
        del graph.node[:]
        graph.node.extend(copies)
    return replaced


def operators_of(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """Return the operators of nodes, each once."""
    return [*dict.fromkeys(node.op_type for node in nodes)]
