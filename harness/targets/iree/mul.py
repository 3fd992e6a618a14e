"""Mul in MLIR."""

from __future__ import annotations

from harness.operators.mul import Mul
from harness.targets.iree.binary import BinaryLowering


class MulLowering(BinaryLowering[Mul]):
    """One operation for each value."""

    operator = Mul
    operation = "arith.mulf"
