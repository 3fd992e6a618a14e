"""A network as an immutable value: its layers with their constants, its input and input box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.tensor import Tensor


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

    `layers` are in the order of the graph's nodes: each reads the input or outputs of earlier layers.
    `box` is float32 (2, size of the input): lower and upper bound of every network input.
    `sha256` is that of the ONNX file's bytes, which are kept in `onnx_bytes`.
    """

    name: str
    input: Tensor
    layers: tuple[Layer, ...]
    box: npt.NDArray[np.float32]
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
    def readers(self) -> tuple[Layer, ...]:
        """The layers that read the input of the network."""
        return tuple(layer for layer in self.layers if self.input.name in layer.sources)

    @property
    def takes_every_input(self) -> bool:
        """True if NaN and infinities as inputs have a defined result; if not, all vectors are finite."""
        return all(layer.stimuli.takes_every_input for layer in self.readers)

    @property
    def checks_input(self) -> bool:
        """True if a layer finds inputs that are NaN, infinite or out of bounds."""
        return any(layer.stimuli.checks_input for layer in self.readers)

    def boundaries(self) -> tuple[Array, Array]:
        """Return inputs around which a layer that reads them changes its output, and those exactly half way."""
        boundaries, ties = zip(*(layer.stimuli.boundaries() for layer in self.readers), strict=True)
        return np.unique(np.concatenate(boundaries)), np.unique(np.concatenate(ties))
