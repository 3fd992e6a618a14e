"""Elu in MLIR: alpha * (exp(x) - 1) below 0, by the operations of elementary.py."""

from __future__ import annotations

from harness.operators.elu import Elu
from harness.targets.iree import elementary
from harness.targets.iree.function import Block, Scalar
from harness.targets.iree.function_of_number import FunctionLowering


class EluLowering(FunctionLowering[Elu]):
    """One value at a time; -0 stays."""

    operator = Elu

    def compute(self, layer: Elu, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        zero = block.number(0, name="zero")
        below = block.compare("olt", x, zero)
        less_one = elementary.exp_minus_one(block, block.select(below, x, zero))
        return block.select(below, block.product(block.number(layer.alpha, name="alpha"), less_one), x, name="y")
