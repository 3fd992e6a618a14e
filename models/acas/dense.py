"""A float network of dense layers with ReLU between them, in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Floats32 = NDArray[np.float32]


@dataclass(frozen=True)
class Dense:
    """One layer, x @ weight + bias: `weight` (inputs, outputs), `bias` (outputs,)."""

    weight: Floats32
    bias: Floats32


def activations(layers: Sequence[Dense], states: Floats32) -> Iterator[Floats32]:
    """The output (n, outputs) of every layer for `states` (n, inputs): after ReLU, but for the last one."""
    values = states
    for index, layer in enumerate(layers):
        values = values @ layer.weight + layer.bias
        if index < len(layers) - 1:
            values = np.maximum(values, 0)
        yield values


def forward(layers: Sequence[Dense], states: Floats32) -> Floats32:
    """The output (n, outputs) of the last layer for `states` (n, inputs)."""
    *_, last = activations(layers, states)
    return last


def save(path: Path, layers: Sequence[Dense]) -> None:
    """Write the layers to the .npz file `path`."""
    np.savez(path, *(array for layer in layers for array in (layer.weight, layer.bias)))


def load(path: Path) -> tuple[Dense, ...]:
    """Read the layers that `save` wrote."""
    with np.load(path) as arrays:
        return tuple(Dense(arrays[f"arr_{i}"], arrays[f"arr_{i + 1}"]) for i in range(0, len(arrays), 2))
