"""Loops of sums in MLIR, over windows of images and of dense operators, for codes and for float32."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.convolution import Convolution
from harness.operators.linear import Linear
from harness.operators.window import Window
from harness.targets.iree.builder import Body, Function, Value


def padded(function: Function, x: Value, window: Window, number: float) -> Value:
    """Return x as images (vectors, channels, height, width) or volumes, with `number` where windows reach outside."""
    channels = x.size // (function.vectors * math.prod(window.shape))
    images = function.reshape(x, (function.vectors, channels, *window.shape))
    sizes = zip(window.reach, window.before, window.shape, strict=True)
    ends = [max(reach - before - size, 0) for reach, before, size in sizes]
    return function.pad(images, (0, 0, *window.before), (0, 0, *ends), number)


def dense(
    layer: Linear,
    function: Function,
    x: Value,
    bias: Value,
    body: Body,
    others: tuple[Value, ...] = (),
    *,
    products: bool = False,
) -> Value:
    """Return sums (rows, N) of x (rows, K), from the bias (N,) on, over k = 0 to K - 1.

    The body gets an input, its weight, an element of each of the `others` (N,), then the sum so far.
    """
    depth, width = layer.weights.shape
    rows = function.reshape(x, (x.size // depth, depth))
    weights = function.constant("weights", layer.weights)
    init = function.repeated(bias, "d1", (rows.shape[0], width), products=products)
    factors = [(rows, "d0, d2"), (weights, "d2, d1"), *((other, "d1") for other in others)]
    return function.loops(init, factors, body, 1, products=products)


def convolved(
    layer: Convolution,
    function: Function,
    images: Value,
    window: Window,
    bias: Value,
    body: Body,
    others: Sequence[Value] = (),
    *,
    products: bool = False,
) -> Value:
    """Return sums (vectors, channels, *positions) of padded images, by channel, row and column of windows.

    They begin with the bias (N,).  The body gets an input, its weight, an element of each of the `others` (N,), then
    the sum so far.
    """
    channels, *sizes = images.shape[1:]
    width, groups = layer.weights.shape[1], layer.groups
    grouped = (groups,) if groups > 1 else ()
    of_channel = (*grouped, width // groups)
    vectors, at, first = function.vectors, ", ".join(f"d{n}" for n in range(1, 1 + len(of_channel))), len(of_channel)
    source = function.reshape(images, (vectors, *grouped, channels // groups, *sizes))
    weights = function.constant("weights", layer.weights.reshape(channels // groups, *window.kernel, *of_channel))
    tables = [function.reshape(each, of_channel) for each in (bias, *others)]
    init = function.repeated(tables[0], at, (vectors, *of_channel, *window.output), products=products)
    group, channel = "d1, " if grouped else "", first + 1 + len(sizes)
    summed = ", ".join(f"d{channel + n}" for n in range(1 + len(sizes)))
    inputs = [
        (source, f"d0, {group}d{channel}, {_places(window, first + 1, channel + 1)}"),
        (weights, f"{summed}, {at}"),
        *((table, at) for table in tables[1:]),
    ]
    result = function.loops(init, inputs, body, 1 + len(sizes), products=products)
    return function.reshape(result, (vectors, width, *window.output))


def spread(function: Function, x: Value, window: Window, shape: tuple[int, ...]) -> tuple[Value, Window, Array]:
    """Return the image of which a convolution computes a transposed one, its windows, and the order of its outputs.

    `window` is that of the convolution whose transpose it is, `shape` that of x.  A place of the kernel counts from the
    last value of its window, so the image is turned around, and the results lie in the opposite order.
    """
    channels = shape[0]
    reach = [(size - 1) * step for size, step in zip(window.kernel, window.dilation, strict=True)]
    spans = [(size - 1) * step + 1 for size, step in zip(window.output, window.stride, strict=True)]
    sizes = [
        most + max(before + size, span)
        for most, before, size, span in zip(reach, window.before, window.shape, spans, strict=True)
    ]
    placed = np.full((channels, *sizes), -1, np.int32)
    inside = tuple(
        slice(first, first + span, step) for first, span, step in zip(reach, spans, window.stride, strict=True)
    )
    placed[:, *inside] = np.arange(math.prod(shape), dtype=np.int32).reshape(channels, *window.output)
    taken = tuple(
        slice(before, before + size + most)
        for before, size, most in zip(window.before, window.shape, reach, strict=True)
    )
    turned = placed[:, *taken][:, ::-1, ::-1]
    plain = Window(turned.shape[1:], window.kernel, (1, 1), window.dilation, (0, 0), window.shape)
    return function.gathered(x, turned), plain, np.arange(math.prod(window.shape)).reshape(window.shape)[::-1, ::-1]


def _places(window: Window, position: int, kernel: int) -> str:
    """Return row and column of a padded image, for axes d`position` and the next, d`kernel` and the next."""
    steps = enumerate(zip(window.stride, window.dilation, strict=True))
    return ", ".join(f"d{position + n} * {stride} + d{kernel + n} * {dilation}" for n, (stride, dilation) in steps)
