"""Add in MLIR."""

from __future__ import annotations

from harness.operators.add import Add
from harness.targets.iree.binary import BinaryLowering
from harness.targets.iree.function import Block, Scalar


class AddLowering(BinaryLowering[Add]):
    """One operation for each value."""

    operator = Add

    @staticmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the sum of two values."""
        return block("arith.addf", a, b, name="sum")
