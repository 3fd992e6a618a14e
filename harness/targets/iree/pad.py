"""Pad in MLIR."""

from __future__ import annotations

from harness.operators.pad import Pad
from harness.targets.iree.move import MoveLowering


class PadLowering(MoveLowering[Pad]):
    """Values at their places."""

    operator = Pad
