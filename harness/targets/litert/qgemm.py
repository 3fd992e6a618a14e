"""QGemm in TFLite: FULLY_CONNECTED."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array
from harness.model.tflite.file import Scales
from harness.operators.codes import Affine
from harness.operators.qgemm import QGemm
from harness.targets.litert import dense
from harness.targets.litert.contraction import ContractionLowering
from harness.targets.litert.graph import Graph, Value


class QGemmLowering(ContractionLowering[QGemm]):
    """The rows of the weights have the order of the stored input."""

    operator: type[QGemm] = QGemm

    def sums(  # noqa: PLR0913 - as of the base
        self,
        layer: QGemm,
        graph: Graph,
        x: Value,
        weights: Array,
        bias: Array,
        scales: tuple[Scales | None, Scales | None],
        name: str,
        y: Affine | None,
    ) -> Value:
        """Add FULLY_CONNECTED."""
        return dense.fully_connected(layer, graph, x, weights, bias, scales, name, y)
