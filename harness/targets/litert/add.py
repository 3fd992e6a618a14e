"""Add of float32 in TFLite: ADD."""

from __future__ import annotations

from harness.operators.add import Add
from harness.targets.litert.binary import BinaryLowering


class AddLowering(BinaryLowering[Add]):
    """See `BinaryLowering`."""

    operator = Add
    tflite = "ADD"
