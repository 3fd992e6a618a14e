"""Windows over images: the part WINDOW of a layer, with the size of its tiles (kernels/tiovx/target/windows.h)."""

from __future__ import annotations

import numpy as np

from harness.operators.window import Window
from harness.targets.generated import Table

TILE_BYTES = 64 * 1024
"""Bytes of a tile, unless one row of windows needs more; two of them, weights and thresholds are to fit into L2."""


def part(
    name: str, window: Window, *, outside: int, groups: int, inputs: int = 1, outputs: int = 1, exponent: int = 0
) -> Table:
    """Return the part of a layer `name`; a group has so many channels, `outside` is the code of the padding."""
    sizes = [groups, inputs, outputs, band(window, inputs), outside, exponent]
    values = np.concatenate([window.table().reshape(-1), sizes]).astype(np.int32).view(np.uint32)
    return Table(f"{name}_window", values, "struct windows")


def band(window: Window, inputs: int) -> int:
    """Return how many rows of windows a tile of so many channels has: as many as fit, and all or one in extreme."""
    extent, width = (
        (count - 1) * stride + (kernel - 1) * dilation + 1
        for count, stride, kernel, dilation in zip(
            (1, window.output[1]), window.stride, window.kernel, window.dilation, strict=True
        )
    )
    rows = TILE_BYTES // (inputs * width)
    return int(np.clip((rows - extent) // window.stride[0] + 1, 1, window.output[0]))
