"""Div in MLIR."""

from __future__ import annotations

from harness.operators.div import Div
from harness.targets.iree.binary import BinaryLowering
from harness.targets.iree.function import Block, Scalar


class DivLowering(BinaryLowering[Div]):
    """One operation for each value."""

    operator = Div
    products = True

    @staticmethod
    def compute(block: Block, a: Scalar, b: Scalar) -> Scalar:
        """Add the quotient of two values."""
        return block.quotient(a, b)
