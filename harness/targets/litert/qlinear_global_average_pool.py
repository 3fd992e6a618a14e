"""QLinearGlobalAveragePool in TFLite: DEPTHWISE_CONV_2D with weights of 1 over the whole image."""

from __future__ import annotations

import math

import numpy as np

from harness.core.arrays import Array
from harness.model.tflite.file import Scales
from harness.operators.codes import Affine
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets.litert.contraction import ContractionLowering
from harness.targets.litert.graph import NO_ACTIVATION, VALID, Graph, Value, offset_of, stored_type
from harness.targets.litert.lowering import image


class QLinearGlobalAveragePoolLowering(ContractionLowering[QLinearGlobalAveragePool]):
    """The scale of the weights is chosen so that the multiplier is the layer's."""

    operator = QLinearGlobalAveragePool

    def sums(  # noqa: PLR0913 - as of the base
        self,
        layer: QLinearGlobalAveragePool,
        graph: Graph,
        x: Value,
        weights: Array,
        bias: Array,
        scales: tuple[Scales | None, Scales | None],
        name: str,
        y: Affine | None,
    ) -> Value:
        """Add the convolution."""
        inner = image(graph, x, layer)
        _, height, width, channels = inner.shape
        kernel = np.ones((1, height, width, channels), weights.dtype)
        own = None if scales[0] is None else Scales(scales[0].scale, 0, 3)
        inputs = [
            inner.tensor,
            graph.constant(f"{name}/weights", kernel, own),
            graph.constant(f"{name}/bias", bias, scales[1]),
        ]
        like = Value(inner.tensor, inner.shape, inner.dtype, (channels, 1, 1), offset_of(layer.dtype))
        options = {"strideH": 1, "strideW": 1, "depthMultiplier": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        return graph.call(
            "DEPTHWISE_CONV_2D",
            inputs,
            name,
            like,
            shape=(1, 1, 1, channels),
            dtype=stored_type(layer.dtype) if y is not None else inner.dtype,
            scales=y,
            padding=VALID,
            fusedActivationFunction=NO_ACTIVATION,
            **options,
        )
