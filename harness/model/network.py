"""A network as an immutable value: its layers with their constants, its inputs and input box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.base import Layer
from harness.operators.tensor import FLOAT32, UINT8, Tensor


@dataclass(frozen=True)
class Normalisation:
    """The affine map from physical inputs to network inputs: normalised = (physical - mean) / range."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    mean: tuple[float, ...]
    range: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """A model, read and found exactly reproducible.

    `layers` are in the order of the graph's nodes: each reads inputs or outputs of earlier layers.
    `box` is two vectors: lower and upper bound of every value of the inputs.
    `sha256` is that of the ONNX file's bytes, which are kept in `onnx_bytes`.

    A vector is a row of `vector.size` values of `vector.dtype`: those of the only input, or the bytes of a `record` of
    several inputs, little endian.
    """

    name: str
    inputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    box: Array
    normalisation: Normalisation | None
    metadata: dict[str, str]
    sha256: str
    onnx_bytes: bytes

    @property
    def steps(self) -> int:
        """The vectors that follow each other as the steps of a stream; 1 if each vector is computed alone."""
        return max(layer.streaming.steps for layer in self.layers)

    @property
    def operations(self) -> int:
        """The number of arithmetic operations of one vector, see `Text.operations`."""
        return sum(layer.text.operations for layer in self.layers)

    @property
    def vector(self) -> Tensor:
        """The row of a vector: that of the only input, or the bytes of all inputs in their order."""
        if len(self.inputs) == 1:
            return self.inputs[0]
        return Tensor("/".join(tensor.name for tensor in self.inputs), (self.record.itemsize,), UINT8)

    @cached_property
    def record(self) -> np.dtype[Any]:
        """The type of a vector with one field per input, in their order and without padding."""
        return np.dtype([(tensor.name, tensor.dtype, (tensor.size,)) for tensor in self.inputs])

    def values(self, vectors: Array) -> dict[str, Array]:
        """Return the values of each input by its name, (n, size), for vectors (n, size of a vector)."""
        if len(self.inputs) == 1:
            return {self.inputs[0].name: vectors}
        records = np.ascontiguousarray(vectors).view(self.record)[:, 0]
        return {name: np.ascontiguousarray(records[name]) for name in self.record.names or ()}

    def numbers(self, vectors: Array) -> Array:
        """Return all values of vectors side by side as numbers, float64 (n, number of values); for people."""
        return np.concatenate([values.astype(np.float64) for values in self.values(vectors).values()], axis=1)

    @property
    def places(self) -> list[tuple[str, int]]:
        """The input and the index within it of each value of a vector, in their order."""
        return [(tensor.name, index) for tensor in self.inputs for index in range(tensor.size)]

    def vectors(self, values: Mapping[str, Array]) -> Array:
        """Return vectors (n, size of a vector) for the values of each input, (n, size); the inverse of `values`."""
        if len(self.inputs) == 1:
            return values[self.inputs[0].name]
        records = np.empty((len(values[self.inputs[0].name]), 1), self.record)
        for name in self.record.names or ():
            records[name][:, 0] = values[name]
        return records.view(self.vector.dtype)

    def float_input(self, feature: str) -> Tensor:
        """Return the only input of the network, float32; RequestError, which names the feature, if it has others."""
        if len(self.inputs) == 1 and self.inputs[0].dtype == FLOAT32:
            return self.inputs[0]
        listed = ", ".join(f"{tensor.name!r} ({tensor.dtype} {tensor.shape_text})" for tensor in self.inputs)
        raise RequestError(
            f"model {self.name!r}: {feature} needs a network with one float32 input; this one has {listed}",
            "harness run, prove and measure take networks with any inputs",
        )

    def readers_of(self, tensor: Tensor) -> tuple[Layer, ...]:
        """Return the layers that read an input of the network."""
        return tuple(layer for layer in self.layers if tensor.name in layer.sources)

    @property
    def readers(self) -> tuple[Layer, ...]:
        """The layers that read an input of the network."""
        names = {tensor.name for tensor in self.inputs}
        return tuple(layer for layer in self.layers if not names.isdisjoint(layer.sources))

    def takes_every(self, tensor: Tensor) -> bool:
        """Return whether NaN and infinities of an input have a defined result; if not, all its values are finite."""
        return all(layer.stimuli.takes_every_input for layer in self.readers_of(tensor))

    def boundaries(self, tensor: Tensor) -> tuple[Array, Array]:
        """Return values of an input around which a layer that reads it changes its output, and those exactly half way.

        Both are sorted, and empty for an input that is no float32.
        """
        if tensor.dtype != FLOAT32:
            return np.empty(0, tensor.dtype), np.empty(0, tensor.dtype)
        pairs = [layer.stimuli.boundaries() for layer in self.readers_of(tensor)]
        boundaries, ties = zip(*pairs, strict=True) if pairs else ([np.empty(0, FLOAT32)], [np.empty(0, FLOAT32)])
        return np.unique(np.concatenate(boundaries)), np.unique(np.concatenate(ties))

    @property
    def takes_every_input(self) -> bool:
        """True if NaN and infinities as inputs have a defined result; if not, all vectors are finite."""
        return all(layer.stimuli.takes_every_input for layer in self.readers)

    @property
    def checks_input(self) -> bool:
        """True if a layer finds inputs that are NaN, infinite or out of bounds."""
        return any(layer.stimuli.checks_input for layer in self.readers)
