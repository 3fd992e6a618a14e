"""QLinearMul on a core."""

from __future__ import annotations

from harness.operators.qlinear_mul import QLinearMul
from harness.targets.tiovx.code_pairs import CodePairsLowering


class QLinearMulLowering(CodePairsLowering[QLinearMul]):
    """A table of the outputs for all pairs of codes."""

    operator = QLinearMul
