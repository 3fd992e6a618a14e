"""Transpose in TFLite: GATHER."""

from __future__ import annotations

from harness.operators.transpose import Transpose
from harness.targets.litert.move import MoveLowering


class TransposeLowering(MoveLowering[Transpose]):
    """See `MoveLowering`."""

    operator = Transpose
