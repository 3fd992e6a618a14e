"""Frames of a stream: the dependence of a layer's values along one axis on those of its input.

A frame is all values of a tensor at one place of the axis along which it is streamed.  Output frame j of a layer is
computed from the input frames j * stride - before to j * stride - before + extent - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Frames:
    """The streaming form of a layer.

    `axis` is that of the output, counted without the vectors; None if one value is computed from the whole axis, so
    that the stream ends here: then `extent` is its length, and each step computes the layer once.  `before` and `after`
    are the frames of padding that are read at both ends, `padding` their value, None if they are not values.
    """

    axis: int | None
    extent: int = 1
    stride: int = 1
    before: int = 0
    after: int = 0
    padding: Any = 0
