"""HardSwish of float32 in TFLite: HARD_SWISH."""

from __future__ import annotations

from harness.operators.hard_swish import HardSwish
from harness.targets.base import Claim
from harness.targets.litert.lowering import ElementwiseLowering


class HardSwishLowering(ElementwiseLowering[HardSwish]):
    """LiteRT's own approximation."""

    operator = HardSwish
    claim = Claim.BOUNDED
    tflite = "HARD_SWISH"
