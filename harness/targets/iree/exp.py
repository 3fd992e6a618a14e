"""Exp in MLIR, by the operations of elementary.py."""

from __future__ import annotations

from harness.operators.exp import Exp
from harness.targets.iree import elementary
from harness.targets.iree.function import Block, Scalar
from harness.targets.iree.function_of_number import FunctionLowering


class ExpLowering(FunctionLowering[Exp]):
    """One value at a time."""

    operator = Exp

    def compute(self, layer: Exp, block: Block, x: Scalar) -> Scalar:  # noqa: ARG002 - it has no constants
        """Add the operations on a value."""
        return elementary.exp(block, x)
