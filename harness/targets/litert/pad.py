"""Pad in TFLite: GATHER."""

from __future__ import annotations

from harness.operators.pad import Pad
from harness.targets.litert.move import MoveLowering


class PadLowering(MoveLowering[Pad]):
    """See `MoveLowering`."""

    operator = Pad
