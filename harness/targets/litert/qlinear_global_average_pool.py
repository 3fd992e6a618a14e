"""QLinearGlobalAveragePool in TFLite: DEPTHWISE_CONV_2D with weights of 1 over the whole image."""

from __future__ import annotations

import numpy as np

from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets.litert.graph import PLAIN, VALID, Graph, Value, offset_of, stored_type
from harness.targets.litert.linear import ContractionLowering
from harness.targets.litert.lowering import image
from harness.targets.litert.sums import Sums


class QLinearGlobalAveragePoolLowering(ContractionLowering[QLinearGlobalAveragePool]):
    """The scale of the weights is chosen so that the multiplier is the layer's."""

    operator = QLinearGlobalAveragePool

    def sums(self, layer: QLinearGlobalAveragePool, graph: Graph, x: Value, sums: Sums) -> Value:
        """Add the convolution."""
        inner = image(graph, x, layer)
        _, height, width, channels = inner.shape
        of_weights, of_bias = sums.scales(3)
        kernel = np.ones((1, height, width, channels), sums.weights.dtype)
        inputs = [
            inner.tensor,
            graph.constant(f"{sums.name}/weights", kernel, of_weights),
            graph.constant(f"{sums.name}/bias", sums.bias, of_bias),
        ]
        options = {"strideH": 1, "strideW": 1, "depthMultiplier": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        return graph.call(
            "DEPTHWISE_CONV_2D",
            inputs,
            sums.name,
            Value(inner.tensor, inner.shape, inner.dtype, (channels, 1, 1), offset_of(layer.dtype)),
            shape=(1, 1, 1, channels),
            dtype=stored_type(layer.dtype) if sums.y is not None else inner.dtype,
            scales=sums.y,
            options={**options, "padding": VALID, **PLAIN},
        )
