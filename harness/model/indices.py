"""The places that indices among the inputs of a network may have.

An import limits the indices of a Gather or Scatter node to the axis (`importer/selections.py`): one beyond it, which
ONNX calls an error, is the nearest place.  Where such an index is itself a value of an input, only moved and converted
to another integer type, the input has the range of the axis.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.operators.base import Layer
from harness.operators.index_range import IndexRange, passed
from harness.operators.tensor import BOOL, Tensor, integer_limits, is_float

SELECTION = re.compile(r"(.*)/(?:Gather|Scatter)Elements_\d+")
LIMIT = re.compile(r"(.*)/(?:Clip|Max|Min)_\d+")
"""The names that an import gives to the nodes of a selection, and to those that limit its indices."""


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
        if limit and limit[1] in owners and layer.size == layer.input.size:
            low, high = layer.prepare()(np.stack([before.low, before.high]))
            limited = replace(before, node=limit[1], low=low, high=high)
            known[layer.output.name] = ranges[limited.input, limited.node] = limited
        elif after := passed(layer, before):
            known[layer.output.name] = after
    return list(ranges.values())
