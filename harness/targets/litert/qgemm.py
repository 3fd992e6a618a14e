"""QGemm in TFLite: FULLY_CONNECTED."""

from __future__ import annotations

from harness.operators.qgemm import QGemm
from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.litert import dense
from harness.targets.litert.contraction import ContractionLowering
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.sums import Sums


class QGemmLowering(ContractionLowering[QGemm]):
    """The rows of the weights have the order of the stored input."""

    operator = (QGemm, QLinearMatMul)

    def sums(self, layer: QGemm, graph: Graph, x: Value, sums: Sums) -> Value:
        """Add FULLY_CONNECTED."""
        return dense.fully_connected(layer, graph, x, sums)
