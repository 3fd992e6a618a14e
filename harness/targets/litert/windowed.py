"""Convolutions and poolings: the padding of ONNX as that of TFLite, or by an operator before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.convolution import Convolution
from harness.operators.window import IMAGE, Window
from harness.targets.litert.graph import PLAIN, SAME, VALID, Graph, Value, offset_of, stored_type
from harness.targets.litert.lowering import image
from harness.targets.litert.sums import Sums


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
    name = graph.next_name(x, "padded")
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


def unsupported(window: Window) -> str | None:
    """Return why TFLite has other windows than the layer, None if it has the same."""
    if len(window.kernel) != IMAGE:
        return "TFLite has windows of images and sequences only"
    for axis in range(IMAGE):
        extent = (window.kernel[axis] - 1) * window.dilation[axis] + 1
        size = max(window.before[axis] + window.shape[axis], window.reach[axis])
        if (size - extent) // window.stride[axis] + 1 != window.output[axis]:
            return "TFLite would compute more windows than the node"
    return None


def convolve(layer: Convolution, graph: Graph, x: Value, sums: Sums) -> Value:
    """Add CONV_2D, or DEPTHWISE_CONV_2D if each group has one channel."""
    count, window = layer.input.shape[0], layer.window
    inner, options = padded(graph, image(graph, x, layer), window, None)
    channels, width = count // layer.groups, sums.weights.shape[1]
    kernel = sums.weights.T.reshape(width, channels, *window.kernel).transpose(0, 2, 3, 1)
    depthwise = channels == 1 and layer.groups > 1
    if depthwise:
        kernel = kernel.transpose(3, 1, 2, 0)
        options = {**options, "depthMultiplier": width // count}
    of_weights, of_bias = sums.scales(3 if depthwise else 0)
    dilations = dict(zip(("dilationHFactor", "dilationWFactor"), window.dilation, strict=True))
    inputs = [
        inner.tensor,
        graph.constant(f"{sums.name}/weights", np.ascontiguousarray(kernel), of_weights),
        graph.constant(f"{sums.name}/bias", sums.bias, of_bias),
    ]
    return graph.call(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        inputs,
        sums.name,
        Value(inner.tensor, inner.shape, inner.dtype, (width, *window.output), offset_of(layer.dtype)),
        shape=(1, *window.output, width),
        dtype=stored_type(layer.dtype) if sums.y is not None else inner.dtype,
        scales=sums.y,
        options={**options, **dilations, **PLAIN},
    )


def pool(graph: Graph, operator: str, x: Value, window: Window, name: str, filler: Array | None) -> Value:
    """Add MAX_POOL_2D or AVERAGE_POOL_2D."""
    inner, options = padded(graph, x, window, filler)
    image_out = (x.shape[3], *window.output)
    like = Value(inner.tensor, inner.shape, inner.dtype, image_out, x.offset)
    sizes = dict(zip(("filterHeight", "filterWidth"), window.kernel, strict=True))
    shape = (1, *window.output, x.shape[3])
    return graph.call(operator, [inner.tensor], name, like, shape=shape, options={**options, **sizes, **PLAIN})
