"""Slice in CUDA."""

from __future__ import annotations

from harness.operators.slice import Slice
from harness.targets.cuda.move import MoveLowering


class SliceLowering(MoveLowering[Slice]):
    """One copy per value."""

    operator = Slice
