"""ArgMax and ArgMin in TFLite: ARG_MAX and ARG_MIN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.arg_extremum import ArgExtremum
from harness.targets.litert.graph import INT64, Graph, Value
from harness.targets.litert.lowering import LiteRtLowering

TYPE_INT64 = 4  # TensorType


class ArgExtremumLowering(LiteRtLowering[ArgExtremum]):
    """The first of equal values."""

    operator = ArgExtremum

    def unsupported(self, layer: ArgExtremum, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse the last of equal values."""
        return "TFLite chooses the first of equal values, and the node the last" if layer.last else None

    def emit(self, layer: ArgExtremum, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator over all values of a vector."""
        x = graph.plain(inputs[0])
        axis = graph.constant(f"{layer.output.name}/axis", np.array([1], np.int32))
        like = Value(x.tensor, x.shape, x.dtype)
        operator = "ARG_MAX" if layer.largest else "ARG_MIN"
        return graph.call(
            operator,
            [x.tensor, axis],
            layer.output.name,
            like,
            shape=(1,),
            dtype=INT64,
            options={"outputType": TYPE_INT64},
        )
