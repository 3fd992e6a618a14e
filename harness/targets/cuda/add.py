"""Add in CUDA."""

from __future__ import annotations

from harness.operators.add import Add
from harness.targets.cuda.binary import BinaryLowering


class AddLowering(BinaryLowering[Add]):
    """One addition per value."""

    operator = Add
    operation = "add"
