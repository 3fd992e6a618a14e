"""Pad in CUDA."""

from __future__ import annotations

from harness.operators.pad import Pad
from harness.targets.cuda.move import MoveLowering


class PadLowering(MoveLowering[Pad]):
    """One copy per value, or the constant."""

    operator = Pad
