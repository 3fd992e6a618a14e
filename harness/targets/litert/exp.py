"""Exp of float32 in TFLite: EXP."""

from __future__ import annotations

from harness.operators.exp import Exp
from harness.targets.base import Claim
from harness.targets.litert.lowering import ElementwiseLowering


class ExpLowering(ElementwiseLowering[Exp]):
    """LiteRT's own approximation."""

    operator = Exp
    claim = Claim.BOUNDED
    tflite = "EXP"
