"""Layers over images (channels, height, width) or sequences (channels, length) that read windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.operators.base import Layer
from harness.operators.region import Pieces, Region, Way, pieces, span
from harness.operators.window import Window


@dataclass(frozen=True, eq=False)
class Windowed(Layer):
    """A layer each of whose values reads a window of the channels of its group; a row of a sequence is one value.

    Some of its rows are such a layer too: over the rows that their windows read, with padding at outer borders alone.
    """

    elementwise = False

    window: Window

    @property
    def groups(self) -> int:
        """The number of groups of channels that are computed apart: each channel, but for convolutions."""
        return self.output.shape[0]

    def pieces(self, way: Way) -> Pieces | None:
        """Return the rows, the groups, or the channels of one group."""
        apart = way == "channels" and self.groups > 1
        return Pieces(self.groups, self.size // self.groups) if apart else pieces(self.output.shape, way)

    def needs(self, region: Region) -> tuple[Region, ...]:
        """Return the input of the groups of some channels, or the rows that the windows of some rows read."""
        axis, first, last = span(self.output.shape, region)
        channels, size = self.input.shape[0], self.input.size
        if axis == 1:
            _, low, high = self._part(first, last)
            width = size // channels // self.input.shape[1]
            return (Region.of(low * width, high * width, channels, size),)
        width, groups = size // self.groups, self.groups
        begin, end = first * groups // self.output.shape[0], -(-last * groups // self.output.shape[0])
        return (Region.of(begin * width, end * width, 1, size),)

    def of_region(self, region: Region) -> dict[str, Any]:
        """Return the windows of some rows; those of channels are the same."""
        axis, first, last = span(self.output.shape, region)
        return {"window": self._part(first, last)[0]} if axis == 1 else {}

    def _part(self, first: int, last: int) -> tuple[Window, int, int]:
        return self.window.part(3 - len(self.output.shape), first, last)
