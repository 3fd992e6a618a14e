"""The nodes of a graph, written again behind an axis of vectors; see `vector_axis`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import onnx
from onnx import numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.importer import constant_outputs
from harness.model.importer.inputs import BATCH
from harness.model.importer.replacement import Replacement, Shape, with_attributes
from harness.model.transforms.edit import names_of


def stated(shape: Shape) -> Shape:
    """Return the shape of one vector of an activation: a number has one axis."""
    return shape or (1,)


@dataclass(eq=False, kw_only=True)
class Rewriting(Replacement):
    """The nodes of a graph of `model`, written again behind an axis of vectors.

    `name` is that of the node that is written.  `shapes` has the shape of each activation of the file.  `forms` has the
    tensors with the values of an activation, in their order, by the shape of one vector.
    """

    model: str
    opset: int
    forms: dict[str, dict[Shape, str]] = field(init=False)
    initializers: dict[str, onnx.TensorProto] = field(init=False)

    def __post_init__(self) -> None:
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        inputs = [value.name for value in self.graph.input if value.name not in self.initializers]
        self.forms = {tensor: {stated(self.shapes[tensor]): tensor} for tensor in inputs}
        self.taken = names_of(self.graph) | {node.name for node in self.graph.node}

    def refusal(self, node: onnx.NodeProto, reason: str, accepted: str) -> RequestError:
        """Return the error to raise for a node of the file."""
        return RequestError(f"model {self.model!r}: node {node.name!r} ({node.op_type}): {reason}", accepted)

    def is_activation(self, tensor: str) -> bool:
        """Return whether the tensor depends on an input."""
        return tensor in self.forms

    def shape_of(self, tensor: str) -> Shape:
        """Return the shape of a tensor, an activation or a constant."""
        return self.shapes[tensor] if tensor in self.shapes else tuple(self.initializers[tensor].dims)

    def values(self, tensor: str) -> Array | None:
        """Return the values of a constant, None for an activation."""
        if tensor in self.initializers:
            return numpy_helper.to_array(self.initializers[tensor])
        return self.constants.get(tensor)

    def input_values(self, node: onnx.NodeProto, position: int) -> Array | None:
        """Return the constant that a node reads, None without one; raise RequestError for an activation."""
        tensor = node.input[position] if position < len(node.input) else ""
        values = self.values(tensor)
        if tensor and values is None:
            raise self.refusal(node, f"its input {tensor!r} is not constant", "an initializer")
        return values

    def required_values(self, node: onnx.NodeProto, position: int) -> Array:
        """Return the constant that a node reads; raise RequestError without one."""
        values = self.input_values(node, position)
        if values is None:
            raise self.refusal(node, f"has no input {position}", "all inputs that ONNX requires")
        return values

    def one_activation(self, node: onnx.NodeProto) -> Shape:
        """Return the shape of the first input; raise RequestError unless it is the only activation that is read."""
        others = [tensor for tensor in node.input[1:] if self.is_activation(tensor)]
        if others or not self.is_activation(node.input[0]):
            wrong = repr(others[0]) if others else f"{node.input[0]!r}, a constant,"
            raise self.refusal(node, f"reads {wrong} where any number of vectors follow", "one activation, the first")
        return self.shapes[node.input[0]]

    def own_forms(self, node: onnx.NodeProto) -> list[str]:
        """Return the inputs of a node, activations in their own shape."""
        return [self.form(tensor) if self.is_activation(tensor) else tensor for tensor in node.input]

    def form(self, tensor: str, shape: Shape | None = None) -> str:
        """Return a tensor with the values of an activation, in this shape of one vector, by default its own."""
        forms, shape = self.forms[tensor], stated(self.shapes[tensor]) if shape is None else shape
        if shape not in forms:
            forms[shape] = self.add("Reshape", [next(iter(forms.values())), self.constant([0, *shape])])
        return forms[shape]

    def renames(self, tensor: str, source: str) -> None:
        """State that two activations have the same values in the same order."""
        self.forms[tensor] = self.forms[source]

    def write(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[str],
        shape: Shape | None = None,
        attributes: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Add a node of the file with other inputs and some other attributes.

        Its first output has this shape of one vector, by default its own, as all others have.
        """
        copy = with_attributes(node, **attributes)
        copy.input[:] = inputs
        outputs = {value.name for value in self.graph.output}
        for place, tensor in enumerate(node.output):
            if not tensor:
                continue
            own = stated(self.shapes[tensor])
            of_output = own if place or shape is None else shape
            if tensor in outputs and of_output != own:
                copy.output[place] = self.free(f"{tensor}/values")
            self.forms[tensor] = {of_output: copy.output[place]}
        self.nodes.append(copy)

    def _write_constant(self, output: onnx.ValueInfoProto) -> None:
        """Add the nodes of an output that is constant; raise RequestError without values."""
        values = self.values(output.name)
        inputs = [value for value in self.graph.input if value.name in self.forms]
        if values is None or not values.size or not inputs:
            raise RequestError(f"model {self.model!r}: output {output.name!r} is no number", "leave it out")
        self.name, shape = output.name, stated(values.shape)
        written = self.free(f"{output.name}/values")
        rows = values.reshape(1, *shape)
        constant_outputs.write(self, written, rows, inputs[0].name, inputs[0].type.tensor_type.elem_type)
        constant_outputs.rename(self, output.name, self.free(f"{output.name}/value"))
        self.shapes[output.name] = values.shape
        self.forms[output.name] = {(): written}

    def close(self) -> None:
        """Replace the nodes of the graph, and the shapes of its inputs and outputs."""
        for value in self.graph.output:
            if value.name not in self.forms:
                self._write_constant(value)
            forms, shape = self.forms[value.name], stated(self.shapes[value.name])
            if forms.get(shape) == value.name:
                continue
            self.name = value.name
            self.add("Reshape", [next(iter(forms.values())), self.constant([0, *shape])], output=value.name)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        for value in (*self.graph.input, *self.graph.output):
            if value.name in self.forms:
                kind = value.type.tensor_type
                del kind.shape.dim[:]
                kind.shape.dim.add(dim_param=BATCH)
                for size in stated(self.shapes[value.name]):
                    kind.shape.dim.add(dim_value=size)
