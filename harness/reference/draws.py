"""Values of one input of a network: within its bounds, at them, around boundaries between codes, and special numbers.

All functions map random numbers, float64 (vectors, size) from 0 to below 1, to values of the input's type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.tensor import Tensor, is_float

SPECIAL_VALUES = np.array(
    [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38], np.float32
)


class InputDraws:
    """The values that one input of a network can be given.

    `boundaries` are sorted float32 values around which a layer that reads the input changes its output, `ties` those
    exactly half way between two codes; both are empty for an input of another type.  `special` are the numbers beyond
    the box that the input may have; integers have none, because they can be indices.
    """

    def __init__(self, network: Network, tensor: Tensor) -> None:
        self._box = network.values(network.box)[tensor.name]
        self.boundaries, self.ties = network.boundaries(tensor)
        self.special = _special_values(network, tensor)

    def uniform(self, u: Array) -> Array:
        """Return values that are uniform over the box."""
        return uniform(self._box, u)

    def corners(self, values: Array, v: Array) -> Array:
        """Return two values of five at their lower bound, two at their upper, the fifth unchanged."""
        return np.where(v < 0.4, self._box[0], np.where(v < 0.8, self._box[1], values))

    def from_grid(self, grid: Array, values: Array, v: Array) -> Array:
        """Return for each value one of the sorted grid within the box; without one, the value unchanged."""
        if not len(grid):
            return values
        first = np.searchsorted(grid, self._box[0], side="left")
        count = np.searchsorted(grid, self._box[1], side="right") - first
        index = first + (v * count).astype(np.int64)
        return np.where(count > 0, grid[np.minimum(index, len(grid) - 1)], values)


def uniform(box: Array, u: Array) -> Array:
    """Return values that are uniform over a box, (2, size), of the box's type; integers with both bounds."""
    if is_float(box.dtype):
        low, high = box.astype(np.float64)
        inside: npt.NDArray[np.float64] = np.clip(low + (high - low) * u, low, high)
        return inside.astype(box.dtype)
    low, high = (bound.astype(np.int64) if box.dtype.kind != "u" else bound.astype(np.uint64) for bound in box)
    steps = high.view(np.uint64) - low.view(np.uint64)  # modulo 2**64, as the sum below
    step = np.minimum(np.floor(u * (steps.astype(np.float64) + 1)), np.nextafter(2.0**64, 0)).astype(np.uint64)
    drawn: Array = (low.view(np.uint64) + np.minimum(step, steps)).view(low.dtype)
    return drawn.astype(box.dtype)


def _special_values(network: Network, tensor: Tensor) -> npt.NDArray[Any]:
    if not is_float(tensor.dtype):
        return np.empty(0, tensor.dtype)
    with np.errstate(over="ignore"):
        values = SPECIAL_VALUES.astype(tensor.dtype)
    return values if network.takes_every(tensor) else values[np.isfinite(values)]
