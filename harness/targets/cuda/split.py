"""Split in CUDA."""

from __future__ import annotations

from harness.operators.split import Split
from harness.targets.cuda.move import MoveLowering


class SplitLowering(MoveLowering[Split]):
    """One copy per value of one output."""

    operator = Split
