"""Gather in TFLite: GATHER."""

from __future__ import annotations

from harness.operators.gather import Gather
from harness.targets.litert.move import MoveLowering


class GatherLowering(MoveLowering[Gather]):
    """See `MoveLowering`."""

    operator = Gather
