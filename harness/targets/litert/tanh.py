"""Tanh of float32 in TFLite: TANH."""

from __future__ import annotations

from harness.operators.tanh import Tanh
from harness.targets.base import Claim
from harness.targets.litert.lowering import ElementwiseLowering


class TanhLowering(ElementwiseLowering[Tanh]):
    """LiteRT's own approximation."""

    operator = Tanh
    claim = Claim.BOUNDED
    tflite = "TANH"
