"""QGemm in MLIR: one row of codes times a matrix."""

from __future__ import annotations

from typing import ClassVar

from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.targets.iree.contraction import ContractionLowering, product
from harness.targets.iree.dense import dense
from harness.targets.iree.function import Function, Value


class QGemmLowering(ContractionLowering[QGemm]):
    """The weights are stored as (K, N)."""

    operator: ClassVar[type[Layer]] = QGemm

    def sums(self, layer: QGemm, function: Function, x: Value, bias: Value) -> Value:
        """Add the loops."""
        others, body = product(layer, function, x)
        return dense(layer, function, x, bias, body, others)
