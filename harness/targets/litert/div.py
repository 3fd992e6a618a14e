"""Div of float32 in TFLite: DIV."""

from __future__ import annotations

from harness.operators.div import Div
from harness.targets.litert.binary import BinaryLowering


class DivLowering(BinaryLowering[Div]):
    """See `BinaryLowering`."""

    operator = Div
    tflite = "DIV"
