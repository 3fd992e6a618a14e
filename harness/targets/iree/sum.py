"""Sum in MLIR: one addition after the other."""

from __future__ import annotations

from harness.operators.sum import Sum
from harness.targets.iree.fold import FoldLowering
from harness.targets.iree.function import Block, Scalar


class SumLowering(FoldLowering[Sum]):
    """Sum of the inputs from left to right."""

    operator = Sum

    def combine(self, layer: Sum, block: Block, first: Scalar, second: Scalar) -> Scalar:  # noqa: ARG002
        """Add two values."""
        return block("arith.addf", first, second, name="sum")
