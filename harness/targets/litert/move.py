"""Operators that move values in TFLite: GATHER, from the order of the stored input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.move import Move
from harness.targets.litert.graph import PLAIN, Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class MoveLowering(LiteRtLowering[Move]):
    """A value that no input gives lies behind those of the input; a change of the order alone is a RESHAPE."""

    operator = Move

    def emit(self, layer: Move, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        [x] = inputs
        name, places = layer.output.name, layer.places.reshape(-1)
        shape = (1, *layer.output.shape)
        stored = np.append(np.argsort(x.places()), x.size)[places]  # the last entry is that of -1
        if len(stored) == x.size and (stored == np.arange(x.size)).all():
            same = Value(x.tensor, x.shape, x.dtype, None, x.offset)
            return graph.reshape(same, shape, name)
        if (places < 0).any():
            x = self._with_filler(layer, graph, x)
        return graph.gather(x, stored, shape, name)

    @staticmethod
    def _with_filler(layer: Move, graph: Graph, x: Value) -> Value:
        name, flat = layer.output.name, graph.reshape(x, (1, x.size))
        number = np.array([[layer.filler]], np.float32)
        if x.dtype == np.int8:
            number = np.array([[int(layer.filler) - x.offset]], np.int8)
        filler = graph.constant(f"{name}/filler", number, graph.tensors[x.tensor].scales)
        return graph.call(
            "CONCATENATION",
            [flat.tensor, filler],
            f"{name}/extended",
            flat,
            shape=(1, x.size + 1),
            options={"axis": 1, **PLAIN},
        )
