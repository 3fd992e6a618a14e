"""Sub of float32 in TFLite: SUB."""

from __future__ import annotations

from harness.operators.sub import Sub
from harness.targets.litert.binary import BinaryLowering


class SubLowering(BinaryLowering[Sub]):
    """See `BinaryLowering`."""

    operator = Sub
    tflite = "SUB"
