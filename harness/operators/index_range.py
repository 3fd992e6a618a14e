"""The values that an input of a network may have where they are indices of a node, and the layers that pass them on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Layer


@dataclass(frozen=True, eq=False)
class IndexRange:
    """Values of an input that are indices of `node`, a node of the file: `low` to `high` at each of these places."""

    input: str
    node: str
    places: npt.NDArray[np.intp]
    low: Array
    high: Array

    def outside(self, values: Array) -> tuple[int, int, int, int] | None:
        """Return vector, place, least and greatest index of the first value beyond; None if there is none.

        `values` are those of the input, (vectors, size).
        """
        indices = values[:, self.places]
        beyond = np.argwhere((indices < self.low) | (indices > self.high))
        if not len(beyond):
            return None
        vector, number = map(int, beyond[0])
        return vector, int(self.places[number]), int(self.low[number]), int(self.high[number])


@singledispatch
def passed(layer: Layer, before: IndexRange) -> IndexRange | None:  # noqa: ARG001 - operators register functions
    """Return the range of the output of a layer that passes values of an input on; None for another layer."""
    return None
