"""Sigmoid in MLIR, by the operations of elementary.py."""

from __future__ import annotations

from harness.operators.sigmoid import Sigmoid
from harness.targets.iree import elementary
from harness.targets.iree.function import Block, Scalar
from harness.targets.iree.function_of_number import FunctionLowering


class SigmoidLowering(FunctionLowering[Sigmoid]):
    """One value at a time."""

    operator = Sigmoid

    def compute(self, layer: Sigmoid, block: Block, x: Scalar) -> Scalar:  # noqa: ARG002 - it has no constants
        """Add the operations on a value."""
        return elementary.logistic(block, x)
