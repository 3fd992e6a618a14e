"""Add in C."""

from __future__ import annotations

from harness.operators.add import Add
from harness.targets.c.binary import BinaryLowering


class AddLowering(BinaryLowering[Add]):
    """One addition per value (kernels/c/add.h)."""

    operator = Add
    kernel = "add_float32"
    symbol = "+"
