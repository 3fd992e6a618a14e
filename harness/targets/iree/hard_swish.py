"""HardSwish in MLIR: x times a HardSigmoid."""

from __future__ import annotations

from harness.operators.hard_swish import ALPHA, BETA, HardSwish
from harness.targets.iree.function import Block, Scalar
from harness.targets.iree.function_of_number import FunctionLowering
from harness.targets.iree.hard_sigmoid import hard_sigmoid


class HardSwishLowering(FunctionLowering[HardSwish]):
    """One value at a time."""

    operator = HardSwish

    def compute(self, layer: HardSwish, block: Block, x: Scalar) -> Scalar:  # noqa: ARG002 - it has no constants
        """Add the operations on a value."""
        return block.product(x, hard_sigmoid(block, x, ALPHA, BETA), name="y")
