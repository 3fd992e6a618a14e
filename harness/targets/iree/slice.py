"""Slice in MLIR."""

from __future__ import annotations

from harness.operators.slice import Slice
from harness.targets.iree.move import MoveLowering


class SliceLowering(MoveLowering[Slice]):
    """Values at their places."""

    operator = Slice
