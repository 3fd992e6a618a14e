"""Div in MLIR."""

from __future__ import annotations

from harness.operators.div import Div
from harness.targets.iree.binary import BinaryLowering


class DivLowering(BinaryLowering[Div]):
    """One operation for each value."""

    operator = Div
    operation = "arith.divf"
