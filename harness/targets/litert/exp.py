"""Exp in TFLite: refused."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.exp import Exp
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering


class ExpLowering(LiteRtLowering[Exp]):
    """EXP of XNNPACK has relative errors of 2e-6, and results below 1.2e-38 become 0."""

    operator = Exp

    def unsupported(self, layer: Exp, variant: str) -> str | None:  # noqa: ARG002 - all layers, all variants
        """Refuse all layers."""
        return "EXP of XNNPACK is further from exp than the layer's tolerance (relative errors of 2e-6)"

    def emit(self, layer: Exp, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Raise an error: no layer is supported."""
        raise NotImplementedError
