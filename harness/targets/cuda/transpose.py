"""Transpose in CUDA."""

from __future__ import annotations

from harness.operators.transpose import Transpose
from harness.targets.cuda.move import MoveLowering


class TransposeLowering(MoveLowering[Transpose]):
    """One copy per value."""

    operator = Transpose
