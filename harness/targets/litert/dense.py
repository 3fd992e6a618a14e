"""FULLY_CONNECTED of the dense operators, for codes and for float32."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array
from harness.model.tflite.file import Scales
from harness.operators.codes import Affine
from harness.operators.linear import Linear
from harness.targets.litert.graph import NO_ACTIVATION, Graph, Value, offset_of, stored_type
from harness.targets.litert.lowering import rows_of


def fully_connected(  # noqa: PLR0913 - the parts of the operator
    layer: Linear,
    graph: Graph,
    x: Value,
    weights: Array,
    bias: Array,
    scales: tuple[Scales | None, Scales | None],
    name: str,
    y: Affine | None,
) -> Value:
    """Add the sums over the last axis; a vector may have several rows."""
    depth, width = weights.shape
    rows = x.size // depth
    if rows > 1:
        x = graph.plain(x)
    matrix = np.ascontiguousarray(rows_of(weights, x).T)
    flat = graph.reshape(x, (rows, depth))
    constants = [
        graph.constant(f"{name}/{role}", values, own)
        for role, values, own in (("weights", matrix, scales[0]), ("bias", bias, scales[1]))
    ]
    return graph.call(
        "FULLY_CONNECTED",
        [flat.tensor, *constants],
        name,
        Value(flat.tensor, flat.shape, flat.dtype, offset=offset_of(layer.dtype)),
        shape=(rows, width),
        dtype=stored_type(layer.dtype) if y is not None else flat.dtype,
        scales=y,
        fusedActivationFunction=NO_ACTIVATION,
        keepNumDims=False,
    )
