"""FULLY_CONNECTED of the dense operators, for codes and for float32."""

from __future__ import annotations

import numpy as np

from harness.operators.linear import Linear
from harness.targets.litert.graph import PLAIN, Graph, Value, offset_of, stored_type
from harness.targets.litert.lowering import rows_of
from harness.targets.litert.sums import Sums


def fully_connected(layer: Linear, graph: Graph, x: Value, sums: Sums) -> Value:
    """Add the sums over the last axis; a vector may have several rows."""
    depth, width = sums.weights.shape
    rows = x.size // depth
    if rows > 1:
        x = graph.plain(x)
    matrix = np.ascontiguousarray(rows_of(sums.weights, x).T)
    flat = graph.reshape(x, (rows, depth))
    of_weights, of_bias = sums.scales(0)
    constants = [
        graph.constant(f"{sums.name}/weights", matrix, of_weights),
        graph.constant(f"{sums.name}/bias", sums.bias, of_bias),
    ]
    return graph.call(
        "FULLY_CONNECTED",
        [flat.tensor, *constants],
        sums.name,
        Value(flat.tensor, flat.shape, flat.dtype, offset=offset_of(layer.dtype)),
        shape=(rows, width),
        dtype=stored_type(layer.dtype) if sums.y is not None else flat.dtype,
        scales=sums.y,
        options={**PLAIN, "keepNumDims": False},
    )
