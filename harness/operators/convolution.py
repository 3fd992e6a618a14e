"""Convolutions: sums of products over windows of images, for codes and for float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.exact.expression import FLOAT32, INT32, Expression
from harness.operators.exact.stages import Axis, Source, Stage, fold
from harness.operators.linear import Linear
from harness.operators.node import Node
from harness.operators.region import Region, span
from harness.operators.rules import Rules
from harness.operators.tensor import Tensor
from harness.operators.tensor_facts import Variable
from harness.operators.traits import Trait
from harness.operators.windowed import Windowed

WINDOWS = "windows, channels and groups as ONNX says"
BYTES_OF_PATCHES = 1 << 23
"""Patches of so many bytes are in memory at once."""


@dataclass(frozen=True, eq=False)
class Convolution(Windowed, Linear):
    """Sums over windows; a channel has weights for the inputs of its group, by channel, row and column."""

    traits = Trait.SUMS

    group_count: int

    @property
    def groups(self) -> int:
        """The attribute group."""
        return self.group_count

    def of_region(self, region: Region) -> dict[str, Any]:
        """Return the constants and the groups of some channels, or the windows of some rows."""
        axis, first, last = span(self.output.shape, region)
        if axis == 1:
            return super().of_region(region)
        groups = max(self.groups * (last - first) // self.output.shape[0], 1)
        return {**self.of_channels(slice(first, last)), "group_count": groups}

    def summary_of_window(self) -> str:
        """Return kernel, stride and groups for people."""
        window = self.window
        kernel = "x".join(map(str, window.kernel))
        stride = f" stride {'x'.join(map(str, window.stride))}" if max(window.stride) > 1 else ""
        groups = f" groups {self.groups}" if self.groups > 1 else ""
        return f"kernel {kernel}{stride}{groups}"

    def sum_of_windows(
        self, name: str, start: Callable[[Expression], Expression], term: Callable[[Expression, Expression], Expression]
    ) -> Stage:
        """Return the fold over each window from `start` of the bias on, of the `term` of each value and its weight.

        A step without a value in the image is left out.
        """
        width, inputs = self.weights.shape[1] // self.groups, self.input.shape[0] // self.groups
        g, m, c = Axis("g", self.groups), Axis("m", width), Axis("c", inputs)
        positions, kernel, x = self.windows(g, c)
        weights = Source("weights", (g, m, c, *kernel), self.weights.dtype, is_constant=True)
        bias = Source("bias", (g, m), INT32 if self.weights.dtype.kind in "iu" else FLOAT32, is_constant=True)
        return fold(name, (g, m, *positions), (c, *kernel), start(bias[g, m]),
                    lambda s: s + term(x, weights[g, m, c, *kernel]))  # fmt: skip

    def views(self, images: Array, padding: float) -> Array:
        """Return the values of each window, (n, channels, *positions, *kernel), of images (n, channels, size)."""
        return self.window.views(images, padding)

    def patches(self, values: Array, padding: int) -> Iterator[tuple[slice, Array]]:
        """Yield for each group its channels and its windows, (n * positions, K)."""
        depth, width = self.weights.shape
        inputs = values.reshape(len(values), self.groups, -1, math.prod(self.input.shape[1:]))
        for group in range(self.groups):
            windows = np.moveaxis(self.views(inputs[:, group], padding), 1, 1 + len(self.window.shape))
            share = width // self.groups
            yield slice(group * share, (group + 1) * share), windows.reshape(-1, depth)

    def contract(self, values: Array, weights: Array) -> Array:
        """Return the sums of products; a few vectors at once, and one place of the kernel if groups have one input."""
        if len(weights) == self.window.size:
            return self._contract_by_places(values, weights)
        at_once = max(BYTES_OF_PATCHES // (self.positions * len(weights) * values.itemsize), 1)
        parts = [super(Convolution, self).contract(values[at : at + at_once], weights)
                 for at in range(0, len(values), at_once)]  # fmt: skip
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _contract_by_places(self, values: Array, weights: Array) -> Array:
        share = weights.shape[1] // self.groups
        views = self.views(values.reshape(len(values), self.groups, -1), 0)
        kernel, one = self.window.kernel, (1,) * len(self.window.kernel)
        sums = np.zeros((len(values), self.groups, share, *views.shape[2 : 2 + len(one)]), values.dtype)
        for place, of_place in zip(np.ndindex(kernel), weights.reshape(-1, 1, self.groups, share, *one), strict=True):
            sums += views[..., *place][:, :, None] * of_place
        return sums.reshape(len(values), -1)

    def wrong_places(self, x: Array, zero: int) -> Iterator[tuple[str, Self, Array]]:
        """Yield cause, layer and inputs of windows, channels and groups at other places; `zero` is the padding."""
        yield from self._wrong_windows(x, zero)
        yield from self._wrong_layouts(x)

    def _wrong_windows(self, x: Array, zero: int) -> Iterator[tuple[str, Self, Array]]:
        """Yield cause, layer and inputs of windows at other places."""
        window = self.window
        kernels = self.weights.reshape(-1, *window.kernel, self.weights.shape[1])
        zero_point = x.dtype.type(zero)
        axes = len(window.kernel)
        for axis, name in enumerate(("plane", "row", "column")[-axes:]):
            if window.shape[axis] == 1:
                continue
            before = tuple(size + (axis == each) for each, size in enumerate(window.before))
            early = replace(window, before=before)
            yield f"the windows begin one {name} too early", replace(self, window=early), x
            late = np.roll(x.reshape(-1, *window.shape), -1, axis=1 + axis)
            late[(slice(None),) * (1 + axis) + (-1,)] = zero_point
            yield f"the windows begin one {name} too late", self, late.reshape(x.shape)
        if max(window.dilation) > 1:
            yield "the dilation is left out", replace(self, window=replace(window, dilation=(1,) * axes)), x
        if window.size > 1:
            yield "the kernel is flipped", self._with(np.flip(kernels, tuple(range(1, 1 + axes)))), x
        if window.kernel[-2] == window.kernel[-1] > 1:
            yield "rows and columns of the kernel are exchanged", self._with(kernels.swapaxes(axes - 1, axes)), x

    def _wrong_layouts(self, x: Array) -> Iterator[tuple[str, Self, Array]]:
        """Yield the same of channels and groups at other places in memory."""
        window, (depth, width) = self.window, self.weights.shape
        images = x.reshape(len(x), self.groups, -1, math.prod(window.shape))
        inputs = images.shape[2]
        if self.input.shape[0] > 1:
            last = x.reshape(len(x), -1, self.input.shape[0]).swapaxes(1, 2)
            yield "the channels of the input are read as the last axis", self, last.reshape(x.shape)
        if inputs > 1:
            yield "the channels of the input are in the opposite order", self, images[:, :, ::-1].reshape(x.shape)
            stored = np.ascontiguousarray(self.weights.T).reshape(width, window.size, inputs)
            channels_last = stored.swapaxes(1, 2).reshape(width, depth).T
            yield "the channels of the weights are read as the last axis", self._with(channels_last), x
        if self.groups > 1:
            of_first = np.repeat(images[:, :1], self.groups, axis=1)
            yield "every group reads the inputs of the first", self, of_first.reshape(x.shape)
            of_turns = images.reshape(len(x), inputs, self.groups, -1).swapaxes(1, 2)
            yield "the inputs belong to the groups in turn", self, of_turns.reshape(x.shape)

    def _with(self, weights: Array) -> Self:
        return replace(self, weights=weights.reshape(self.weights.shape))


def read_weights(node: Node, position: int, source: Tensor, groups: int, accepted: Sequence[np.dtype[Any]]) -> Array:
    """Return input `position`, the weights (M, channels / groups, kernel...) of an accepted type."""
    weights = node.constant(position, f"weight for a {source.dtype} input", accepted)
    channels = source.shape[0]
    if groups < 1 or channels % groups:
        raise node.refusal(f"group is {groups}, the input has {channels} channels", "a divisor of the channels")
    if weights.ndim != len(source.shape) + 1 or weights.shape[1] != channels // groups or weights.size == 0:
        raise node.refusal(
            f"the weights have shape {weights.shape}, the input has {channels} channels in {groups} groups",
            f"shape (M, {channels // groups}, kernel...) with {len(source.shape) - 1} sizes of the kernel",
        )
    if len(weights) % groups:
        raise node.refusal(f"{len(weights)} channels of the output in {groups} groups", "a multiple of the groups")
    return weights


def convolved(node: Rules, weights: Variable, bias: Variable | None) -> None:
    """State the sizes of windows, of channels in groups, and of the bias."""
    x, y, groups = node.x, node.y, node.attribute("group", 1)
    node.all_equal(x.rank, weights.rank, y.rank).equals(x.size(0), y.size(0)).equals(y.size(1), weights.size(0))
    node.sum_is_zero((-1, x.size(1)), (groups, weights.size(1)))
    node.given(weights.size(0)).then(
        lambda size: node.require(not (size.constant or 0) % groups, f"{size} channels in {groups} groups")
    )
    if bias is not None:
        node.equals(bias.rank, 1).equals(bias.size(0), weights.size(0))
    for at, size in enumerate(node.attribute("kernel_shape", [])):
        node.equals(weights.size(2 + at), size)
    node.given(x.rank).then(lambda rank: node.windows(2, [weights.size(axis) for axis in range(2, rank)]))
