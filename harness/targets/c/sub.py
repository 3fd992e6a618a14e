"""Sub in C."""

from __future__ import annotations

from harness.operators.sub import Sub
from harness.targets.c.binary import BinaryLowering


class SubLowering(BinaryLowering[Sub]):
    """One subtraction per value (kernels/c/sub.h)."""

    operator = Sub
    headers = ("sub.h",)
    kernel = "sub_float32"
    symbol = "-"
    first = "minuend"
