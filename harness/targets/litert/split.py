"""Split in TFLite: GATHER."""

from __future__ import annotations

from harness.operators.split import Split
from harness.targets.litert.move import MoveLowering


class SplitLowering(MoveLowering[Split]):
    """See `MoveLowering`."""

    operator = Split
