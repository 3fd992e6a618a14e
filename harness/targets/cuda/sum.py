"""Sum in CUDA."""

from __future__ import annotations

from harness.operators.sum import Sum
from harness.targets.cuda.fold import FoldLowering


class SumLowering(FoldLowering[Sum]):
    """One addition per operand after the first."""

    operator = Sum

    def operation(self, layer: Sum) -> str:  # noqa: ARG002 - the same for all layers
        """Return the addition."""
        return "add"
