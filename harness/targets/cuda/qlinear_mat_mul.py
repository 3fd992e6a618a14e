"""QLinearMatMul in CUDA: QGemm without bias."""

from __future__ import annotations

from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.cuda.qgemm import QGemmLowering


class QLinearMatMulLowering(QGemmLowering):
    """The code of QGemm, whose bias is 0."""

    operator = QLinearMatMul
