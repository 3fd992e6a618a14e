"""Resize in TFLite: GATHER."""

from __future__ import annotations

from harness.operators.resize import Resize
from harness.targets.litert.move import MoveLowering


class ResizeLowering(MoveLowering[Resize]):
    """See `MoveLowering`."""

    operator = Resize
