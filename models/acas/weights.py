"""The layers of a float network in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.model.float_network import Dense

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def save(path: Path, layers: Sequence[Dense]) -> None:
    """Write the layers to the .npz file `path`, whole or not at all."""
    partial = path.with_suffix(".part.npz")
    np.savez(partial, *(array for layer in layers for array in (layer.weight, layer.bias)))
    partial.replace(path)


def load(path: Path) -> tuple[Dense, ...]:
    """Read the layers that `save` wrote; all but the last have a ReLU."""
    with np.load(path) as arrays:
        pairs = [(arrays[f"arr_{i}"], arrays[f"arr_{i + 1}"]) for i in range(0, len(arrays), 2)]
    return tuple(Dense(weight, bias, relu=index < len(pairs) - 1) for index, (weight, bias) in enumerate(pairs))
