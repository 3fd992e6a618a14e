"""Sum, Max and Min of several operands in TFLite: one operator after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from harness.operators.fold import Fold
from harness.targets.litert.binary import operands
from harness.targets.litert.graph import PLAIN, Graph, Value
from harness.targets.litert.lowering import LiteRtLowering

F = TypeVar("F", bound=Fold)


class FoldLowering(LiteRtLowering[F]):
    """From the first operand on, as the node."""

    names: ClassVar[dict[str, str]]
    """The operator of TFLite by that of ONNX."""

    def emit(self, layer: F, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operators; a single operand is added to nothing."""
        found = operands(layer, layer.terms, graph, inputs)
        operator = self.names[layer.operator]
        options = PLAIN if operator == "ADD" else {}
        [first, *others] = found.numbers
        value = Value(first, found.shape, found.like.dtype, found.like.image)
        for number, other in enumerate(others, 1):
            name = layer.output.name if number == len(others) else f"{layer.output.name}/step_{number}"
            value = graph.call(operator, [value.tensor, other], name, value, shape=found.shape, options=options)
        return value if others else graph.renamed(value, layer.output.name)
