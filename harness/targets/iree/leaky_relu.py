"""LeakyRelu in MLIR: a product below 0."""

from __future__ import annotations

from harness.operators.leaky_relu import LeakyRelu
from harness.targets.iree.builder import Block, Scalar
from harness.targets.iree.function import FunctionLowering


class LeakyReluLowering(FunctionLowering[LeakyRelu]):
    """One value at a time; -0 stays."""

    operator = LeakyRelu

    def compute(self, layer: LeakyRelu, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        below = block.compare("olt", x, block.number(0, name="zero"))
        return block.select(below, block.product(block.number(layer.alpha, name="alpha"), x), x, name="y")
