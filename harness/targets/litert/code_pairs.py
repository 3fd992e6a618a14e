"""Functions of two codes in TFLite: GATHER of the table of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from harness.operators.base import Layer
from harness.operators.code_pairs import CodePairs
from harness.operators.qlinear_mul import QLinearMul
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lookup import look_up, numbers
from harness.targets.litert.lowering import LiteRtLowering

P = TypeVar("P", bound=CodePairs)
CODES = 256


class CodePairsLowering(LiteRtLowering[P]):
    """The table is that of the specification: TFLite's own operator rounds some pairs in another way."""

    operator: ClassVar[type[Layer]] = QLinearMul

    def unsupported(self, layer: P, variant: str) -> str | None:  # noqa: ARG002 - all variants refuse the same
        """Refuse activations that are repeated along an axis."""
        return "it repeats an activation along an axis" if layer.broadcasts else None

    def emit(self, layer: P, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the numbers of the pairs and the operator."""
        name, first = layer.output.name, inputs[0]
        high = graph.binary("MUL", numbers(graph, first, f"{name}/first"), np.array([CODES], np.int32), f"{name}/rows")
        second = self._second(layer, graph, inputs, name)
        places = graph.binary("ADD", high, second, f"{name}/places")
        return look_up(graph, places, layer.by_activation(layer.table()), layer.y, name)

    def _second(self, layer: P, graph: Graph, inputs: Sequence[Value], name: str) -> Value | np.ndarray:
        first = inputs[0]
        if layer.operand is None:
            return numbers(graph, graph.as_stored(inputs[1], first), f"{name}/second")
        below = layer.operand.astype(np.int32) - np.iinfo(layer.dtype).min
        return below[first.places()].reshape(first.shape)
