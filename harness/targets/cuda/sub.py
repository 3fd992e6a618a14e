"""Sub in CUDA."""

from __future__ import annotations

from harness.operators.sub import Sub
from harness.targets.cuda.binary import BinaryLowering


class SubLowering(BinaryLowering[Sub]):
    """One subtraction per value."""

    operator = Sub
    operation = "subtract"
