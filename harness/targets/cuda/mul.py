"""Mul in CUDA."""

from __future__ import annotations

from harness.operators.mul import Mul
from harness.targets.cuda.binary import BinaryLowering


class MulLowering(BinaryLowering[Mul]):
    """One multiplication per value."""

    operator = Mul
    operation = "multiply"
