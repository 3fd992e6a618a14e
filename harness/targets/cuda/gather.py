"""Gather in CUDA."""

from __future__ import annotations

from harness.operators.gather import Gather
from harness.targets.cuda.move import MoveLowering


class GatherLowering(MoveLowering[Gather]):
    """One copy per value."""

    operator = Gather
