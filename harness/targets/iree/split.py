"""Split in MLIR."""

from __future__ import annotations

from harness.operators.split import Split
from harness.targets.iree.move import MoveLowering


class SplitLowering(MoveLowering[Split]):
    """Values at their places."""

    operator = Split
