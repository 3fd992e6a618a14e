"""HardSigmoid in MLIR: a product, a sum and two comparisons."""

from __future__ import annotations

import numpy as np

from harness.operators.hard_sigmoid import HardSigmoid
from harness.targets.iree.function import Block, Scalar
from harness.targets.iree.function_of_number import FunctionLowering


class HardSigmoidLowering(FunctionLowering[HardSigmoid]):
    """One value at a time."""

    operator = HardSigmoid

    def compute(self, layer: HardSigmoid, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        return hard_sigmoid(block, x, layer.alpha, layer.beta)


def hard_sigmoid(block: Block, x: Scalar, alpha: np.float32, beta: np.float32) -> Scalar:
    """Add max(0, min(1, alpha * x + beta))."""
    zero, one = block.number(0, name="zero"), block.number(1, name="one")
    scaled = block.product(block.number(alpha, name="alpha"), x)
    v = block("arith.addf", scaled, block.number(beta, name="beta"))
    v = block.select(block.compare("ogt", v, one), one, v)
    return block.select(block.compare("olt", v, zero), zero, v)
