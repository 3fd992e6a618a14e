"""Sum, Max and Min of several operands in TFLite: one operator after the other."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.extremum import Max, Min
from harness.operators.fold import Fold
from harness.operators.sum import Sum
from harness.targets.litert.graph import PLAIN, Graph, Value
from harness.targets.litert.lowering import LiteRtLowering
from harness.targets.litert.terms import operands

NAMES = {"Max": "MAXIMUM", "Min": "MINIMUM", "Sum": "ADD"}
"""The operators of TFLite by those of ONNX."""


class FoldLowering(LiteRtLowering[Fold]):
    """From the first operand on, as the node."""

    operator = (Max, Min, Sum)

    def emit(self, layer: Fold, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operators; a single operand is added to nothing."""
        found = operands(layer, layer.terms, graph, inputs)
        operator = NAMES[layer.operator]
        options = PLAIN if operator == "ADD" else {}
        [first, *others] = found.numbers
        value = Value(first, found.shape, found.like.dtype, found.like.image)
        for number, other in enumerate(others, 1):
            name = layer.output.name if number == len(others) else f"{layer.output.name}/step_{number}"
            value = graph.call(operator, [value.tensor, other], name, value, shape=found.shape, options=options)
        return value if others else graph.renamed(value, layer.output.name)
