"""QLinearMul in CUDA."""

from __future__ import annotations

from harness.operators.qlinear_mul import QLinearMul
from harness.targets.cuda.code_pairs import CodePairsLowering


class QLinearMulLowering(CodePairsLowering[QLinearMul]):
    """An integer product, a multiplication and an addition per value."""

    operator = QLinearMul
    function_of_pair = "multiply_codes"
