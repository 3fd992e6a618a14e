"""Reshape, Flatten and others that keep all values in TFLite: RESHAPE."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.rename import Rename
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class RenameLowering(LiteRtLowering[Rename]):
    """The stored order stays, so that a dense layer behind it takes its weights in that order."""

    operator = Rename

    def emit(self, layer: Rename, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        [x] = inputs
        shape = (1, *layer.output.shape) if x.image is None else (1, x.size)
        return graph.reshape(x, shape, layer.output.name)
