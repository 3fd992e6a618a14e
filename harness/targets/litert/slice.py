"""Slice in TFLite: GATHER."""

from __future__ import annotations

from harness.operators.slice import Slice
from harness.targets.litert.move import MoveLowering


class SliceLowering(MoveLowering[Slice]):
    """See `MoveLowering`."""

    operator = Slice
