"""Gather in MLIR."""

from __future__ import annotations

from harness.operators.gather import Gather
from harness.targets.iree.move import MoveLowering


class GatherLowering(MoveLowering[Gather]):
    """Values at their places."""

    operator = Gather
