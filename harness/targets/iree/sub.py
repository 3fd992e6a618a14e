"""Sub in MLIR."""

from __future__ import annotations

from harness.operators.sub import Sub
from harness.targets.iree.binary import BinaryLowering


class SubLowering(BinaryLowering[Sub]):
    """One operation for each value."""

    operator = Sub
    operation = "arith.subf"
