"""Layers over images (channels, height, width), volumes or sequences (channels, length) that read windows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.core.arrays import Array
from harness.operators.base import Ability, Layer
from harness.operators.exact.expression import Expression
from harness.operators.exact.stages import SKIP, Axis, Source
from harness.operators.frames import Frames, Streaming
from harness.operators.obligations import Obligation, Outputs, ProofStep, StageKind
from harness.operators.region import WAYS, Division, Region, Way, span
from harness.operators.rules import Rules
from harness.operators.traits import Trait
from harness.operators.window import Window

Axes = tuple[Axis, ...]
CODES = 256
PLACE_PAIRS = 1 << 12
PAIR_VALUES = 1 << 27
"""Values of all vectors with pairs of codes."""


class WindowedStreaming(Streaming):
    """The windows of a layer along one axis."""

    layer: Windowed

    def frames(self, axis: int) -> Frames | str:
        """Return the windows along rows or columns; those of a whole image end the stream."""
        layer, at = self.layer, self._axis_of_window(axis)
        if at < 0:
            return f"{layer.operator} computes each channel from the others: stream another axis than {axis + 1}"
        window = layer.window
        size, before = window.shape[at], window.before[at]
        extent = (window.kernel[at] - 1) * window.dilation[at] + 1
        after = max(window.reach[at] - before - size, 0)
        whole = window.output[at] == 1 and extent == size and not before
        return Frames(None if whole else axis, extent, window.stride[at], before, after, layer.padding)

    def node(self, node: onnx.NodeProto, axis: int) -> onnx.NodeProto:
        """Return the node without padding along the axis; that of other axes as far as it is read."""
        names = {entry.name for entry in node.attribute}
        if not names & {"pads", "auto_pad"}:
            return node
        window, inner = self.layer.window, 1 - len(self.layer.input.shape)
        ends = [max(reach - before - size, 0)
                for reach, before, size in zip(window.reach, window.before, window.shape, strict=True)]  # fmt: skip
        pads = [[0 if at == self._axis_of_window(axis) else size for at, size in enumerate(sizes)][inner:]
                for sizes in (window.before, ends)]  # fmt: skip
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        del changed.attribute[:]
        changed.attribute.extend(entry for entry in node.attribute if entry.name not in ("pads", "auto_pad"))
        changed.attribute.append(helper.make_attribute("pads", [*pads[0], *pads[1]]))
        return changed

    def _axis_of_window(self, axis: int) -> int:
        """Return the axis of the window, for an image 0 for rows and 1 for columns; less than 0 for channels."""
        return axis + len(self.layer.window.shape) - len(self.layer.input.shape) if axis else -1


class WindowedDivision(Division):
    """The rows, the groups, or the channels of one group."""

    layer: Windowed

    def needs(self, region: Region) -> tuple[Region, ...]:
        """Return the input of the groups of some channels, or the rows that the windows of some rows read."""
        axis, first, last = span(self.layer.output.shape, region)
        if axis != 1:
            return super().needs(region)
        _, low, high = self.layer.rows(first, last)
        channels, rows = self.layer.input.shape[:2]
        width = self.layer.input.size // channels // rows
        return (Region.of(low * width, high * width, channels, self.layer.input.size),)


def divided(layer: Windowed, ways: Sequence[Way] = WAYS) -> Division:
    """Return the division of a layer into rows, groups, or channels of one group."""
    apart = layer.groups if layer.groups > 1 else 0
    return WindowedDivision(layer, ways, groups=layer.groups, channels=apart, fields=layer.of_region)


@dataclass(frozen=True, eq=False)
class Windowed(Layer):
    """A layer each of whose values reads a window of the channels of its group; a row of a sequence is one value.

    Some of its rows are such a layer too: over the rows that their windows read, with padding at outer borders alone.
    """

    traits = Trait.NONE
    streaming = Ability[Streaming](WindowedStreaming)
    division = Ability(divided)

    window: Window

    def loads(self) -> tuple[Axes, Axes, Expression]:
        """Return the axes of the output and of the window, and the value of the input for a step of a fold along them.

        Steps whose values lie outside of the image are left out.
        """
        if self.window.is_image:
            channel, k = Axis("c", self.input.shape[0]), Axis("k", self.window.size)
            return (channel, Axis("p", 1), Axis("q", 1)), (k,), Source("x", (channel, k), self.input.dtype)[channel, k]
        channel = Axis("c", self.input.shape[0])
        positions, kernel, value = self.windows(channel)
        return (channel, *positions), kernel, value

    def windows(self, *channel: Axis) -> tuple[Axes, Axes, Expression]:
        """Return the axes of the positions and of the kernel, and the value at both of a channel with these axes."""
        window = self.window.in_line()
        positions, kernel, image = (
            tuple(Axis(name, size) for name, size in zip(names[-len(sizes) :], sizes, strict=True))
            for names, sizes in (("opq", window.output), ("hij", window.kernel), ("zyx", window.shape))
        )
        sizes = zip(positions, window.stride, kernel, window.dilation, window.before, strict=True)
        places = [at * stride + step * dilation - before for at, stride, step, dilation, before in sizes]
        x = Source("x", (*channel, *image), self.input.dtype)
        return positions, kernel, x.at((*channel, *places), SKIP)

    @property
    def groups(self) -> int:
        """The number of groups of channels that are computed apart: each channel, but for convolutions."""
        return self.output.shape[0]

    @property
    def padding(self) -> Any:
        """The value that a place outside the image counts as; None if it is no value of the image."""
        return None

    def of_region(self, region: Region) -> dict[str, Any]:
        """Return the windows of some rows; those of channels are the same."""
        axis, first, last = span(self.output.shape, region)
        return {"window": self.rows(first, last)[0]} if axis == 1 else {}

    def rows(self, first: int, last: int) -> tuple[Window, int, int]:
        """Return the window of some rows, the first row that it reads, and the one after the last."""
        return self.window.part(1 + len(self.window.shape) - len(self.output.shape), first, last)

    def of_pairs(self, other: int) -> Obligation:
        """Return that two codes of a window act together as specified, whatever they are; the code of all `other` ones.

        A pair is in one window at least: windows without common values, and channels, have pairs of their own.
        """
        windows, channels = self.window.apart(), self.input.shape[0]
        every = list(itertools.combinations(range(windows.shape[1]), 2))
        places = every[:: -(-len(every) // PLACE_PAIRS) or 1]
        in_image = {pair: windows[(windows[:, pair] >= 0).all(axis=1)][:, pair] for pair in places}
        vectors = {pair: -(-(CODES**2) // (len(at) * channels)) for pair, at in in_image.items() if len(at)}
        kept = list(vectors)[:: max(-(-sum(vectors.values()) * self.input.size // PAIR_VALUES), 1)]
        dtype = self.input.dtype

        def images() -> Iterator[Array]:
            for pair in kept:
                at, count = in_image[pair], vectors[pair]
                numbers = np.arange(count * channels * len(at)).reshape(count, channels, len(at))
                values = np.full((count, channels, self.input.size // channels), other, dtype)
                values[..., at[:, 0]] = (numbers // CODES).astype(np.uint8).view(dtype)
                values[..., at[:, 1]] = numbers.astype(np.uint8).view(dtype)
                yield values.reshape(count, -1)

        return Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "any two values of a window give the right code together",
            f"every pair of codes at {len(kept):,} of {len(every):,} pairs of places, each in one window at least, all "
            f"other values at {other}; not complete",
            sum(vectors[pair] for pair in kept) * self.size,
            Outputs(images, self.prepare()),
            complete=False,
        )


def pooled(node: Rules) -> None:
    """State the sizes of windows of one channel each; a node without a kernel pools whole images."""
    x, y, kernel = node.x, node.y, node.attribute("kernel_shape", None)
    node.same_type(x, y).equals(x.rank, y.rank).equals(x.size(0), y.size(0))
    first = 1 if node.attribute("channels_last", 0) else 2

    def sizes(rank: int) -> None:
        node.equals(x.size(3 - first if first == 2 else -1), y.size(3 - first if first == 2 else -1))
        if kernel is not None:
            node.require(len(kernel) == rank - 2, f"a kernel of {len(kernel)} axes for {rank - 2}")
            node.windows(first, kernel, ceil=bool(node.attribute("ceil_mode", 0)))
        else:
            for axis in range(first, first + rank - 2):
                node.equals(y.size(axis), 1)

    node.given(x.rank).then(sizes)
