"""QLinearMul in MLIR."""

from __future__ import annotations

from harness.operators.qlinear_mul import QLinearMul
from harness.targets.iree.code_pairs import CodePairsLowering


class QLinearMulLowering(CodePairsLowering[QLinearMul]):
    """An access to the table for each value."""

    operator = QLinearMul
