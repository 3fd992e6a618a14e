"""QLinearMul in TFLite: a table of all pairs of codes."""

from __future__ import annotations

from harness.operators.qlinear_mul import QLinearMul
from harness.targets.litert.code_pairs import CodePairsLowering


class QLinearMulLowering(CodePairsLowering[QLinearMul]):
    """See `CodePairsLowering`."""

    operator = QLinearMul
