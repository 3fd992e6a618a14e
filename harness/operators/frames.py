"""Frames of a stream: the dependence of a layer's values along one axis on those of its input.

A frame is all values of a tensor at one place of the axis along which it is streamed.  Output frame j of a layer is
computed from the input frames j * stride - before to j * stride - before + extent - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx

from harness.operators.traits import Trait

if TYPE_CHECKING:
    from harness.operators.base import Layer


@dataclass(frozen=True)
class Frames:
    """The streaming form of a layer.

    `axis` is that of the output, counted without the vectors; None if one value is computed from the whole axis, so
    that the stream ends here: then `extent` is its length, and each step computes the layer once.  `before` and `after`
    are the frames of padding that are read at both ends, `padding` their value, None if they are not values.  `states`
    are arrays that carry over from frame to frame: the step writes them side by side, the first one is its output.  A
    layer that takes one frame of the whole axis has its `place`.
    """

    axis: int | None
    extent: int = 1
    stride: int = 1
    before: int = 0
    after: int = 0
    padding: Any = 0
    states: int = 0
    place: int | None = None

    @property
    def has_first(self) -> bool:
        """True if the first frame is computed in another way than later ones: from padding, or from first states."""
        return bool(self.before or self.states)


@dataclass(frozen=True, eq=False)
class Streaming:
    """The ability of a layer to compute the steps of a stream.

    `steps` are the vectors that are the steps of one stream, each of which depends on those before; `copies` those of
    its buffer: 2 if it reads its output for the vector before, which must then last until the next; `kept` are the
    values of it that are read.  `form` returns the form along an axis, or why there is none, where that is not the
    default.
    """

    layer: Layer
    steps: int = 1
    copies: int = 1
    kept: int = 0
    form: Callable[[int], Frames | str | None] | None = None

    def frames(self, axis: int) -> Frames | str:
        """Return the streaming form along an axis of the inputs, counted without the vectors; or why it has none."""
        layer = self.layer
        if self.form is not None and (form := self.form(axis)):
            return form
        shapes, shape = [tensor.shape for tensor in layer.inputs], layer.output.shape
        if all(of_input == shape for of_input in shapes) and Trait.ELEMENTWISE in layer.traits:
            return Frames(axis)
        of_all = (of_input for of_input in shapes if len(of_input) == len(shape))
        if layer.text.side_by_side and all(of_input[axis] == shape[axis] for of_input in of_all):
            return Frames(axis)
        return f"{layer.operator} has no streaming form along axis {axis + 1}"

    def node(self, node: onnx.NodeProto, axis: int) -> onnx.NodeProto:  # noqa: ARG002 - windows override it
        """Return the layer's node for a step along an axis of its inputs, whose padding is read as frames."""
        return node
