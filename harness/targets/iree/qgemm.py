"""QGemm in MLIR: one row of codes times a matrix."""

from __future__ import annotations

from harness.operators.qgemm import QGemm
from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.contraction import ContractionLowering, product
from harness.targets.iree.dense import dense


class QGemmLowering(ContractionLowering[QGemm]):
    """The weights are stored as (K, N)."""

    operator = (QGemm, QLinearMatMul)

    def sums(self, layer: QGemm, function: Function, x: Value, bias: Value) -> Value:
        """Add the loops."""
        others, body = product(layer, function, x)
        return dense(layer, function, x, bias, body, others)
