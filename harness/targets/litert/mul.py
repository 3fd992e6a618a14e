"""Mul of float32 in TFLite: MUL."""

from __future__ import annotations

from harness.operators.mul import Mul
from harness.targets.litert.binary import BinaryLowering


class MulLowering(BinaryLowering[Mul]):
    """See `BinaryLowering`."""

    operator = Mul
    tflite = "MUL"
