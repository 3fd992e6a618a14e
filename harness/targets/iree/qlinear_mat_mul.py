"""QLinearMatMul in MLIR: QGemm without bias."""

from __future__ import annotations

from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.iree.qgemm import QGemmLowering


class QLinearMatMulLowering(QGemmLowering):
    """The same loops."""

    operator = QLinearMatMul
