"""Transpose in MLIR."""

from __future__ import annotations

from harness.operators.transpose import Transpose
from harness.targets.iree.move import MoveLowering


class TransposeLowering(MoveLowering[Transpose]):
    """Values at their places."""

    operator = Transpose
