"""Convolutions and poolings: the padding of ONNX as that of TFLite, or by an operator before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.model.tflite.file import Scales
from harness.operators.codes import Affine
from harness.operators.convolution import Convolution
from harness.operators.window import Window
from harness.targets.litert.graph import NO_ACTIVATION, SAME, VALID, Graph, Value, offset_of, stored_type
from harness.targets.litert.lowering import image


def padded(graph: Graph, x: Value, window: Window, filler: Array | None) -> tuple[Value, Mapping[str, Any]]:
    """Return the image that the windows read, and the options of stride, dilation and padding.

    `filler` is the value outside the image; None means the number that stands for 0.
    """
    strides = dict(zip(("strideH", "strideW"), window.stride, strict=True))
    _, height, width, channels = x.shape
    spare = [
        max(reach - before - size, 0)
        for reach, before, size in zip(window.reach, window.before, (height, width), strict=True)
    ]
    if not any((*window.before, *spare)):
        return x, {**strides, "padding": VALID}
    if filler is None and is_same(window):
        return x, {**strides, "padding": SAME}
    widths = np.array([(0, 0), *zip(window.before, spare, strict=True), (0, 0)], np.int32)
    shape = (1, *(size + int(sum(pair)) for size, pair in zip((height, width), widths[1:3], strict=True)), channels)
    name = f"{graph.tensors[x.tensor].name}/padded"
    inputs = [x.tensor, graph.constant(f"{name}/widths", widths)]
    if filler is not None:
        scales = graph.tensors[x.tensor].scales
        inputs.append(graph.constant(f"{name}/filler", filler.reshape(1), scales))
    made = graph.call("PAD" if filler is None else "PADV2", inputs, name, x, shape=shape)
    return made, {**strides, "padding": VALID}


def is_same(window: Window) -> bool:
    """Return whether SAME of TFLite is the padding: the windows begin half of the missing rows before the image."""
    for axis in range(2):
        missing = max(window.reach[axis] - window.shape[axis], 0)
        whole = -(-window.shape[axis] // window.stride[axis])
        if window.output[axis] != whole or window.before[axis] != missing // 2:
            return False
    return True


def reads_more(window: Window) -> bool:
    """Return whether TFLite would have more windows than the layer."""
    for axis in range(2):
        extent = (window.kernel[axis] - 1) * window.dilation[axis] + 1
        size = max(window.before[axis] + window.shape[axis], window.reach[axis])
        if (size - extent) // window.stride[axis] + 1 != window.output[axis]:
            return True
    return False


def convolve(  # noqa: PLR0913 - the parts of the operator
    layer: Convolution,
    graph: Graph,
    x: Value,
    weights: Array,
    bias: Array,
    scales: tuple[Scales | None, Scales | None],
    name: str,
    y: Affine | None,
) -> Value:
    """Add CONV_2D, or DEPTHWISE_CONV_2D if each group has one channel."""
    count, window = layer.input.shape[0], layer.window
    inner, options = padded(graph, image(graph, x, layer), window, None)
    channels, width = count // layer.groups, weights.shape[1]
    kernel = weights.T.reshape(width, channels, *window.kernel).transpose(0, 2, 3, 1)
    depthwise = channels == 1 and layer.groups > 1
    own = scales[0]
    if depthwise:
        kernel = kernel.transpose(3, 1, 2, 0)
        own = None if own is None else Scales(own.scale, own.zero_point, 3)
        options = {**options, "depthMultiplier": width // count}
    dilations = dict(zip(("dilationHFactor", "dilationWFactor"), window.dilation, strict=True))
    inputs = [
        inner.tensor,
        graph.constant(f"{name}/weights", np.ascontiguousarray(kernel), own),
        graph.constant(f"{name}/bias", bias, scales[1]),
    ]
    like = Value(inner.tensor, inner.shape, inner.dtype, (width, *window.output), offset_of(layer.dtype))
    return graph.call(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        inputs,
        name,
        like,
        shape=(1, *window.output, width),
        dtype=stored_type(layer.dtype) if y is not None else inner.dtype,
        scales=y,
        fusedActivationFunction=NO_ACTIVATION,
        **options,
        **dilations,
    )


def pool(graph: Graph, operator: str, x: Value, window: Window, name: str, filler: Array | None) -> Value:
    """Add MAX_POOL_2D or AVERAGE_POOL_2D."""
    inner, options = padded(graph, x, window, filler)
    image_out = (x.shape[3], *window.output)
    like = Value(inner.tensor, inner.shape, inner.dtype, image_out, x.offset)
    sizes = dict(zip(("filterHeight", "filterWidth"), window.kernel, strict=True))
    shape = (1, *window.output, x.shape[3])
    return graph.call(
        operator, [inner.tensor], name, like, shape=shape, fusedActivationFunction=NO_ACTIVATION, **options, **sizes
    )
