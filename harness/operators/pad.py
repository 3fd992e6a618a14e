"""Pad (ONNX): values before and after the axes of a vector.

y[i, j, ...] = x[i - before, ...] inside x, else by the mode

    constant    the constant, which is 0 if it is not given
    reflect     the value at the same distance from the first or the last one, on its other side
    edge        the first or the last value
    wrap        the value that follows if x is repeated
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, Places, of_steps
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import EVERY_TYPE, INT32, INT64, WIDE_INTEGERS
from harness.operators.text import moving

COMMENT = "ONNX Pad: `value` before and after the axes of a vector, where places is -1."
WITH_VALUES = "ONNX Pad: values of the input before and after the axes."
MODES = ("constant", "reflect", "edge", "wrap")


@dataclass(frozen=True, eq=False)
class Pad(Move):
    """The input between constants, or between more of its own values."""

    ONNX = (("", "Pad"),)
    text = Move.text.but(
        "y = x, with the constant or values of x (reflect, edge, wrap) before and after the axes",
        ("x", "pads", "constant_value", "axes"),
        (
            *moving("pad_axes", 96, COMMENT, "    value: scalar,\n"),
            *moving("pad_axes_with_values", 101, WITH_VALUES),
            *moving("pad_axes_of_integers", 200, COMMENT, "    value: integer,\n"),
        ),
        chosen=lambda layer: 1 if layer.order.filler is None else 2 * (layer.dtype in WIDE_INTEGERS),
        summary_of=lambda layer: (
            "values of the input" if layer.order.filler is None else f"constant {layer.order.filler}",
        ),
    )
    counts: ClassVar = {"Pad": (2, 4)}
    types = EVERY_TYPE

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that each axis grows by its pads."""
        node.same_type(node.x, node.y).equals(node.x.rank, node.y.rank)

        def grow(rank: int, pads: Array, axes: Array | None) -> None:
            padded = [*range(rank)] if axes is None else [node.axis(int(axis), rank) for axis in axes]
            node.require(len(pads) == 2 * len(padded), f"{len(pads)} pads for {len(padded)} axes")
            added = dict(zip(padded, zip(pads, pads[len(padded) :], strict=False), strict=True))
            for axis in range(rank):
                before, after = (Size.of(each) for each in added.get(axis, (0, 0)))
                node.sum_is_zero((1, node.x.size(axis)), (1, before + after), (-1, node.y.size(axis)))

        def padded(pads: Array, axes: Array | None) -> None:
            if axes is None:
                node.equals(node.x.rank, len(pads) // 2)
            node.given(node.x.rank).then(lambda rank: grow(rank, pads, axes))

        node.parameters((("pads", 1), ("axes", 3)), padded)

    @classmethod
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the values between constant pads of 0 or more, none of the number of vectors."""
        mode = node.attributes({"mode": b"constant"})["mode"].decode(errors="replace")
        if mode not in MODES:
            raise node.refusal(f"mode is {mode!r}", ", ".join(MODES))
        rank, pads = 1 + x.ndim, node.constant(1, "pads", [INT64]).tolist()
        axes = node.constant(3, "axes", [INT64, INT32]).tolist() if node.has(3) else list(range(rank))
        if len(pads) != 2 * len(axes) or min(pads, default=0) < 0 or not all(-rank <= axis < rank for axis in axes):
            raise node.refusal(f"pads is {pads}", f"{2 * len(axes)} integers of 0 or more: all begins, then all ends")
        widths = np.zeros((rank, 2), np.int64)
        widths[axes] = np.reshape(pads, (2, -1)).T
        if widths[0].any():
            raise node.refusal(f"pads is {pads}", "no padding of the first axis, the vectors")
        dtype = node.activation(0, cls.types).dtype
        value = node.single(2, "constant value", [dtype]) if node.has(2) else dtype.type(0)
        if np.isnan(value):
            raise node.refusal(f"the constant value is {value}", "a number")
        if mode == "constant":
            padded = np.pad(x, widths[1:].tolist(), constant_values=-1)
            return Order(padded, padded, value)
        most = np.array(x.shape)[:, None] - (mode == "reflect")
        if mode != "edge" and (widths[1:] > most).any():
            raise node.refusal(f"pads is {pads}, the mode {mode}", f"at most {most.ravel().tolist()} on the axes")
        return of_steps(np.pad(x, widths[1:].tolist(), mode=mode))
