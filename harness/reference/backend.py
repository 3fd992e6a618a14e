"""ONNX's backend interface on the specification; users import it as `harness.backend`."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.base import Backend, BackendRep

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.graph import load
from harness.model.network import Network
from harness.model.transforms.edit import free_initializers
from harness.operators.tensor import BOOL, CODES, FLOAT16, FLOAT32, FLOAT64, SHORT, WIDE_INTEGERS, Tensor
from harness.reference.specification import SpecificationReference

DEVICE = "CPU"
INPUT_TYPES = (FLOAT32, FLOAT64, FLOAT16, *CODES, *WIDE_INTEGERS, *SHORT, BOOL)
"""The types of an input that stays one where several cannot be imported; the first in this order stays."""


class Prepared(BackendRep):
    """A model that is ready to be computed.

    Raises RequestError where a model of one input cannot be imported.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._network: Network | None = None
        try:
            self._network = _network_of(model)
        except RequestError:
            if len(_inputs(model)) == 1:
                raise

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:  # noqa: ARG002 - as in the base class
        """Return the outputs of the model for its inputs, arrays in the order of the model or by name.

        Raises RequestError as `vectors`.
        """
        return self.outputs(*self.vectors(inputs))

    def vectors(self, inputs: Any) -> tuple[Network, Array]:
        """Return the network that computes these inputs, and its vectors, (n, size) or records.

        If a model of several inputs cannot be imported, some of them become constants: shapes, axes and limits are
        inputs in many models.  Those with the most axes stay; if these cannot be imported, the first one that can be,
        in the order of INPUT_TYPES.  Raises RequestError where none can, for the first choice, and where an input has
        another type or shape.
        """
        names = _inputs(self._model)
        arrays = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=False))
        values = {name: np.asarray(value) for name, value in arrays.items()}
        network = self._network
        if network is None:
            network = _with_fewer_inputs(self._model, values)
        return network, network.vectors({tensor.name: _rows(tensor, values[tensor.name]) for tensor in network.inputs})

    def outputs(self, network: Network, vectors: Array) -> tuple[Array, ...]:
        """Return the outputs of the model, in the shapes that it states, as the network computes the vectors."""
        activations = SpecificationReference(network).activations(vectors)
        places = {layer.output.name: place for place, layer in enumerate(network.layers)}
        outputs = []
        for output in self._model.graph.output:
            place = places[output.name]
            sizes = tuple(size.dim_value for size in output.type.tensor_type.shape.dim)
            is_stated = output.type.tensor_type.HasField("shape") and math.prod(sizes) == activations[place].size
            shape = sizes if is_stated else (len(vectors), *network.layers[place].output.shape)
            outputs.append(activations[place].reshape(shape))
        return tuple(outputs)


class HarnessBackend(Backend):
    """The backend of the specification."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = DEVICE, **kwargs: Any) -> Prepared:
        """Return the model, ready to be computed; raise RequestError where it cannot be imported."""
        super().prepare(model, device, **kwargs)
        return Prepared(model)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = DEVICE, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs of the model for its inputs; raise RequestError as `prepare` and `Prepared.run` do."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether the specification is computed on this device."""
        return device == DEVICE


prepare = HarnessBackend.prepare
run_model = HarnessBackend.run_model
supports_device = HarnessBackend.supports_device


def _inputs(model: onnx.ModelProto) -> list[str]:
    """Return the names of the inputs that are no initializers."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in constants]


def _network_of(model: onnx.ModelProto) -> Network:
    """Return the network, as it is loaded from a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return load(path)


def _with_fewer_inputs(model: onnx.ModelProto, values: Mapping[str, Array]) -> Network:
    """Return the network with some of the inputs; the others are constants.  See `Prepared.vectors`."""
    names = [name for name in _inputs(model) if values[name].dtype in INPUT_TYPES]
    names.sort(key=lambda name: INPUT_TYPES.index(values[name].dtype))
    most = max((values[name].ndim for name in names), default=0)
    largest = {name for name in names if values[name].ndim == most}
    choices = [{name} for name in names]
    choices = [largest, *choices] if 1 < len(largest) < len(_inputs(model)) else choices
    refused = RequestError("the model has no input of numbers", f"one of {', '.join(map(str, INPUT_TYPES))}")
    for place, kept in enumerate(choices):
        try:
            return _network_of(_with_constants(model, values, kept))
        except RequestError as error:
            refused = refused if place else error
    raise refused


def _with_constants(model: onnx.ModelProto, values: Mapping[str, Array], kept: set[str]) -> onnx.ModelProto:
    """Return the model whose inputs other than `kept` are constants."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in [value for value in copy.graph.input if value.name in values and value.name not in kept]:
        copy.graph.input.remove(value)
        copy.graph.initializer.append(onnx.numpy_helper.from_array(values[value.name], value.name))
    free_initializers(copy)
    return copy


def _rows(tensor: Tensor, value: Array) -> Array:
    """Return the vectors of an input, (n, size); raise RequestError for a value of another type or shape."""
    if value.dtype != tensor.dtype or value.size % tensor.size:
        raise RequestError(
            f"the input {tensor.name!r} is {value.dtype} of shape {value.shape}",
            f"{tensor.dtype} of shape (vectors, {', '.join(map(str, tensor.shape))})",
        )
    return np.ascontiguousarray(value).reshape(-1, tensor.size)
