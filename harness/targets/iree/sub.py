"""Sub in MLIR."""

from __future__ import annotations

from harness.operators.sub import Sub
from harness.targets.iree.binary import BinaryLowering
from harness.targets.iree.function import Block, Scalar


class SubLowering(BinaryLowering[Sub]):
    """One operation for each value."""

    operator = Sub

    @staticmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the difference of two values."""
        return block("arith.subf", a, b, name="difference")
