"""Mul in MLIR."""

from __future__ import annotations

from harness.operators.mul import Mul
from harness.targets.iree.binary import BinaryLowering
from harness.targets.iree.function import Block, Scalar


class MulLowering(BinaryLowering[Mul]):
    """One operation for each value."""

    operator = Mul
    products = True

    @staticmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the product of two values."""
        return block.product(a, b)
