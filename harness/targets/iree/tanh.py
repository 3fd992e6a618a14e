"""Tanh in MLIR, by the operations of elementary.py."""

from __future__ import annotations

from harness.operators.tanh import Tanh
from harness.targets.iree import elementary
from harness.targets.iree.function import Block, Scalar
from harness.targets.iree.function_of_number import FunctionLowering


class TanhLowering(FunctionLowering[Tanh]):
    """One value at a time."""

    operator = Tanh

    def compute(self, layer: Tanh, block: Block, x: Scalar) -> Scalar:  # noqa: ARG002 - it has no constants
        """Add the operations on a value."""
        return elementary.tanh(block, x)
