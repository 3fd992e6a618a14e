"""QLinearMatMul in TFLite: FULLY_CONNECTED."""

from __future__ import annotations

from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.litert.qgemm import QGemmLowering


class QLinearMatMulLowering(QGemmLowering):
    """A QGemm without a bias."""

    operator = QLinearMatMul
