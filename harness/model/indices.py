"""The places that indices among the inputs of a network may have.

An import limits the indices of a Gather or Scatter node to the axis (`importer/selections.py`): one beyond it, which
ONNX calls an error, is the nearest place.  Where such an index is itself a value of an input, only moved and converted
to another integer type, the input has the range of the axis.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.cast import Cast
from harness.operators.move import Move
from harness.operators.tensor import BOOL, Tensor, integer_limits, is_float

SELECTION = re.compile(r"(.*)/(?:Gather|Scatter)Elements_\d+")
LIMIT = re.compile(r"(.*)/(?:Clip|Max|Min)_\d+")
"""The names that an import gives to the nodes of a selection, and to those that limit its indices."""


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


def index_ranges(inputs: Sequence[Tensor], layers: Sequence[Layer]) -> list[IndexRange]:
    """Return the ranges of all indices among the values of integer inputs."""
    owners = {match[1] for layer in layers if (match := SELECTION.fullmatch(layer.node))}
    if not owners:
        return []
    known: dict[str, IndexRange] = {}
    for tensor in inputs:
        if not is_float(tensor.dtype) and tensor.dtype != BOOL:
            ends = (np.full(tensor.size, end, tensor.dtype) for end in integer_limits(tensor.dtype))
            known[tensor.name] = IndexRange(tensor.name, "", np.arange(tensor.size), *ends)
    ranges: dict[tuple[str, str], IndexRange] = {}
    for layer in layers:
        [source, *others] = layer.sources
        if others or source not in known or is_float(layer.dtype) or layer.dtype == BOOL:
            continue
        before, limit = known[source], LIMIT.fullmatch(layer.node)
        if isinstance(layer, Move):
            if (layer.places >= 0).all():
                moved = (part[layer.places] for part in (before.places, before.low, before.high))
                known[layer.output.name] = IndexRange(before.input, before.node, *moved)
        elif isinstance(layer, Cast):
            known[layer.output.name] = _converted(before, layer)
        elif limit and limit[1] in owners and layer.size == layer.input.size:
            low, high = layer.prepare()(np.stack([before.low, before.high]))
            limited = replace(before, node=limit[1], low=low, high=high)
            known[layer.output.name] = ranges[limited.input, limited.node] = limited
    return list(ranges.values())


def _converted(before: IndexRange, layer: Cast) -> IndexRange:
    """Return a range in another type, as far as that has its values."""
    least, greatest = integer_limits(layer.dtype)
    low, high = ([min(max(int(end), least), greatest) for end in ends] for ends in (before.low, before.high))
    return replace(before, low=np.array(low, layer.dtype), high=np.array(high, layer.dtype))
