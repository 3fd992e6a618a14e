"""A node of the graph: its constants and attributes, each checked, and the way to refuse it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.tensor import FLOAT32, Tensor

if TYPE_CHECKING:
    from harness.operators.base import Layer

NEWEST_OPSET = 26
AXES_ARE_INPUT = 18
"""The first opset in which the axes of ReduceMax, ReduceMean, ReduceMin and others are an input."""
"""The newest version of ONNX's own domain that ONNX Runtime 1.31, the reference, takes."""
DEFAULT_DOMAIN = ("", "ai.onnx")


@dataclass(frozen=True)
class Node:
    """A node of the graph with the tensors that it may read, and the way to refuse it.

    `activations` are the network's input and the outputs of earlier nodes.  `position` is that of the output that is
    read as a layer; `opset` is the version of ONNX's own domain.  `bounds` are the least
    and the greatest value of an activation for all inputs of the network, if layers before it are known.  `writer`
    returns the layer that writes a tensor, but for those that are transparent to ONNX Runtime.
    """

    model: str
    proto: onnx.NodeProto
    name: str
    constants: Mapping[str, Array]
    activations: Mapping[str, Tensor]
    position: int = 0
    opset: int = NEWEST_OPSET
    bounds: Callable[[str], tuple[float, float]] | None = None
    writer: Callable[[str], Layer | None] = lambda _: None

    def range(self, source: Tensor) -> tuple[float, float]:
        """Return numbers that no value of a float32 activation is below, or above."""
        low, high = (-math.inf, math.inf) if self.bounds is None else self.bounds(source.name)
        return max(low, -source.bound), min(high, source.bound)

    @property
    def output(self) -> str:
        """The name of the tensor that the layer writes."""
        return str(self.proto.output[self.position])

    @property
    def operator(self) -> str:
        """The operator's name, without its domain."""
        return str(self.proto.op_type)

    @property
    def inputs(self) -> list[str]:
        """The names of the tensors that it reads; an optional one left out is empty."""
        return list(self.proto.input)

    def refusal(self, reason: str, accepted: str) -> RequestError:
        """Return the error to raise: the problem of this node, and the accepted alternatives."""
        return RequestError(f"model {self.model!r}: node {self.name!r} ({self.operator}): {reason}", accepted)

    def has(self, position: int) -> bool:
        """Return whether the optional input is given."""
        return position < len(self.inputs) and bool(self.inputs[position])

    def require_inputs(self, least: int, most: int, *, any_outputs: bool = False) -> None:
        """Refuse another number of inputs, and any other number of outputs than one unless `any_outputs`."""
        if not least <= len(self.inputs) <= most or not all(self.inputs[:least]):
            raise self.refusal(f"has {len(self.inputs)} inputs", f"it takes {least} to {most}")
        if (len(self.proto.output) != 1 and not any_outputs) or not self.output:
            raise self.refusal(f"has {len(self.proto.output)} outputs", "it writes one")

    def activation(self, position: int, dtypes: Sequence[np.dtype[Any]]) -> Tensor:
        """Return the activation that it reads at `position`, of one of `dtypes`."""
        name = self.inputs[position]
        if name in self.constants:
            raise self.refusal(f"its input {name!r} is a constant", "the result of another node")
        if name not in self.activations:
            raise self.refusal(
                f"its input {name!r} is not written by any node before it",
                f"nodes in topological order; so far there are: {', '.join(self.activations)}",
            )
        source = self.activations[name]
        if source.dtype not in dtypes:
            raise self.refusal(f"its input {name!r} is {source.dtype}", f"it reads {' or '.join(map(str, dtypes))}")
        return source

    def vector(self, position: int, dtypes: Sequence[np.dtype[Any]]) -> Tensor:
        """Return the activation that it reads at `position`, which must have one axis."""
        source = self.activation(position, dtypes)
        if len(source.shape) != 1:
            axes = ", ".join(map(str, source.shape))
            raise self.refusal(
                f"its input {source.name!r} has shape (vectors, {axes})", f"(vectors, {source.size}): Flatten it"
            )
        return source

    def constant(self, position: int, what: str, dtypes: Sequence[np.dtype[Any]]) -> Array:
        """Return the constant that it reads at `position`, of one of `dtypes`."""
        name = self.inputs[position]
        if name not in self.constants:
            raise self.refusal(f"the {what}, {name!r}, is not constant", "make it an initializer of the model")
        value = self.constants[name]
        if value.dtype not in dtypes:
            raise self.refusal(f"the {what} is {value.dtype}", f"{' or '.join(map(str, dtypes))} is accepted")
        return value

    def single(self, position: int, what: str, dtypes: Sequence[np.dtype[Any]]) -> Any:
        """Return a constant that is one number for the whole tensor."""
        value = self.constant(position, what, dtypes)
        if value.shape not in ((), (1,)):
            raise self.refusal(
                f"the {what} has shape {value.shape}", "one value for the whole tensor: shape () or (1,)"
            )
        return value.reshape(-1)[0]

    def scale(self, position: int, what: str) -> np.float32:
        """Return a scale for the whole tensor."""
        return np.float32(self.normal(self.single(position, what, [FLOAT32]), what))

    def normal(self, values: Array, what: str) -> Array:
        """Return the float32 values, all of which must be positive, finite and normal."""
        smallest = np.finfo(np.float32).tiny
        wrong = np.atleast_1d(values)[~((np.atleast_1d(values) >= smallest) & np.isfinite(np.atleast_1d(values)))]
        if wrong.size:
            raise self.refusal(
                f"the {what} is {wrong[0]}", f"a positive, finite, normal float32: {smallest:.8g} to 3.4028235e+38"
            )
        return values

    def attributes(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes, all of which must be among `defaults`."""
        given = {entry.name: onnx.helper.get_attribute_value(entry) for entry in self.proto.attribute}
        for name in given.keys() - defaults.keys():
            raise self.refusal(f"attribute {name!r} is unknown", f"its attributes are {', '.join(defaults)}")
        for name, value in given.items():
            if not isinstance(value, type(defaults[name])):
                raise self.refusal(f"attribute {name!r} is {value!r}", f"a number such as {defaults[name]}")
        return {**defaults, **given}

    def require_per_tensor(self, attributes: Mapping[str, Any], output_types: Sequence[int]) -> None:
        """Refuse blocks, and element types other than ONNX's default and `output_types`."""
        if attributes["block_size"] != 0:
            raise self.refusal(f"block_size is {attributes['block_size']}", "per-tensor quantisation: no block_size")
        for name, accepted in (("output_dtype", output_types), ("precision", (0, onnx.TensorProto.FLOAT))):
            if attributes.get(name, 0) not in (0, *accepted):
                kinds = " or ".join(element_type(kind) for kind in accepted if kind)
                raise self.refusal(f"{name} is {attributes[name]}", f"{kinds}, or none")


def domain_of(proto: onnx.NodeProto) -> str:
    """Return the operator's domain; ONNX's own is empty."""
    return "" if proto.domain in DEFAULT_DOMAIN else proto.domain


def element_type(number: int) -> str:
    """Return the name of an ONNX element type."""
    names: dict[int, str] = {value: name.lower() for name, value in onnx.TensorProto.DataType.items()}
    return names.get(number, f"element type {number}")
