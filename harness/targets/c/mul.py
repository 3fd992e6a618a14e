"""Mul in C."""

from __future__ import annotations

from harness.operators.mul import Mul
from harness.targets.c.binary import BinaryLowering


class MulLowering(BinaryLowering[Mul]):
    """One multiplication per value (kernels/c/mul.h)."""

    operator = Mul
    headers = ("mul.h",)
    kernel = "mul_float32"
    symbol = "*"
