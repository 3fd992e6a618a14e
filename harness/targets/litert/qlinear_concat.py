"""QLinearConcat in TFLite: a table for each input with another quantisation, then CONCATENATION."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.obligations import all_codes
from harness.operators.qlinear_concat import QLinearConcat
from harness.targets.litert.concat import concatenate
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lookup import look_up, numbers
from harness.targets.litert.lowering import LiteRtLowering


class QLinearConcatLowering(LiteRtLowering[QLinearConcat]):
    """The tables are those of the specification."""

    operator = QLinearConcat

    def emit(self, layer: QLinearConcat, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the tables and the operator."""
        joined = []
        for number, (x, table) in enumerate(zip(inputs, layer.table(), strict=True), 1):
            name = f"{layer.output.name}/input_{number}"
            same = (table == all_codes(layer.dtype)).all()
            joined.append(
                graph.codes(x, layer.y) if same else look_up(graph, numbers(graph, x, name), table, layer.y, name)
            )
        return concatenate(graph, layer, joined, 1)
