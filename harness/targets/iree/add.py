"""Add in MLIR."""

from __future__ import annotations

from harness.operators.add import Add
from harness.targets.iree.binary import BinaryLowering


class AddLowering(BinaryLowering[Add]):
    """One operation for each value."""

    operator = Add
    operation = "arith.addf"
