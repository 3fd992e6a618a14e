"""Sigmoid of float32 in TFLite: LOGISTIC."""

from __future__ import annotations

from harness.operators.sigmoid import Sigmoid
from harness.targets.base import Claim
from harness.targets.litert.lowering import ElementwiseLowering


class SigmoidLowering(ElementwiseLowering[Sigmoid]):
    """LiteRT's own approximation."""

    operator = Sigmoid
    claim = Claim.BOUNDED
    tflite = "LOGISTIC"
