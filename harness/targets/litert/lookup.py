"""Functions of codes by their tables, in TFLite: GATHER of a table at the numbers of the codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.codes import Affine
from harness.operators.lookup import Lookup
from harness.targets.litert.graph import INT8, INT32, Graph, Value, of_affine
from harness.targets.litert.lowering import LiteRtLowering


class LookupLowering(LiteRtLowering[Lookup]):
    """The table is that of the specification."""

    operator = Lookup

    def emit(self, layer: Lookup, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the numbers of the codes and the operator."""
        return look_up(graph, numbers(graph, inputs[0], layer.output.name), layer.table(), layer.y, layer.output.name)


def numbers(graph: Graph, x: Value, name: str) -> Value:
    """Return the number of codes below each, int32."""
    wide = graph.cast(x, INT32, f"{name}/codes")
    return graph.binary("ADD", wide, np.array([-np.iinfo(INT8).min], np.int32), f"{name}/numbers")


def look_up(graph: Graph, places: Value, table: Array, y: Affine, name: str) -> Value:
    """Return the entries of a table of codes at places, as codes of the quantisation y."""
    stored = (table.reshape(-1).astype(np.int16) - places.offset).astype(np.int8)
    entries = graph.constant(f"{name}/table", stored, of_affine(y, places.offset))
    return graph.call("GATHER", [entries, places.tensor], name, places, dtype=INT8, scales=y, options={"axis": 0})
