"""Pad (ONNX), codes or float32: values before and after the axes of a vector.

y[i, j, ...] = x[i - before, ...] inside x, else by the mode

    constant    the constant, which is 0 if it is not given
    reflect     the value at the same distance from the first or the last one, on its other side
    edge        the first or the last value
    wrap        the value that follows if x is repeated
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Constants, fields
from harness.operators.fault_models import FaultModel
from harness.operators.move import Move, moving
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import FLOAT32, INT8, INT64, UINT8
from harness.operators.text import Fragment

COMMENT = "ONNX Pad: `value` before and after the axes of a vector, where places is -1."
MODES = ("constant", "reflect", "edge", "wrap")


@dataclass(frozen=True, eq=False)
class Pad(Move):
    """The input between constants, or between more of its own values."""

    ONNX = (("", "Pad"),)
    formula = "y = x, with the constant or values of x (reflect, edge, wrap) before and after the axes"
    roles = ("x", "pads", "constant_value", "axes")
    fragments = (
        *moving("pad_axes", 96, COMMENT, "    value: scalar,\n")[:1],
        *moving("pad_axes_with_values", 101, "ONNX Pad: values of the input before and after the axes.")[:1],
    )

    value: Any
    """The constant; None in the other modes."""

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
    def read(cls, node: Node) -> Self:
        """Read a node with constant pads of 0 or more, none of the number of vectors."""
        node.require_inputs(2, 4)
        source = node.activation(0, [UINT8, INT8, FLOAT32])
        mode = node.attributes({"mode": b"constant"})["mode"].decode(errors="replace")
        if mode not in MODES:
            raise node.refusal(f"mode is {mode!r}", ", ".join(MODES))
        rank, pads = 1 + len(source.shape), node.constant(1, "pads", [INT64]).tolist()
        axes = node.constant(3, "axes", [INT64, np.dtype(np.int32)]).tolist() if node.has(3) else list(range(rank))
        if len(pads) != 2 * len(axes) or min(pads, default=0) < 0 or not all(-rank <= axis < rank for axis in axes):
            raise node.refusal(f"pads is {pads}", f"{2 * len(axes)} integers of 0 or more: all begins, then all ends")
        widths = np.zeros((rank, 2), np.int64)
        widths[axes] = np.reshape(pads, (2, -1)).T
        if widths[0].any():
            raise node.refusal(f"pads is {pads}", "no padding of the first axis, the vectors")
        value = node.single(2, "constant value", [source.dtype]) if node.has(2) else source.dtype.type(0)
        if not np.isfinite(value):
            raise node.refusal(f"the constant value is {value}", "a finite number")
        places = np.arange(source.size, dtype=np.int32).reshape(source.shape)
        if mode != "constant":
            most = np.array(source.shape)[:, None] - (mode == "reflect")
            if mode != "edge" and (widths[1:] > most).any():
                raise node.refusal(f"pads is {pads}, the mode {mode}", f"at most {most.ravel().tolist()} on the axes")
            padded = np.pad(places, widths[1:].tolist(), mode=mode)
            kept = fields(node, [source], padded.shape, source.dtype, source.bound, negative_zero=source.negative_zero)
            return cls(**kept, places=padded, value=None)
        padded = np.pad(places, widths[1:].tolist(), constant_values=-1)
        filled = padded.size > places.size
        written = fields(
            node,
            [source],
            padded.shape,
            source.dtype,
            max(source.bound, abs(float(value))) if source.dtype == FLOAT32 else math.inf,
            negative_zero=source.negative_zero or bool(filled and source.dtype == FLOAT32 and np.signbit(value)),
        )
        return cls(**written, places=padded, value=value)

    @property
    def filler(self) -> Any:
        """The constant."""
        return self.value

    def constants(self) -> Constants:
        """Return the places, and the constant."""
        return super().constants() if self.value is None else {**super().constants(), "value": np.float32(self.value)}

    @property
    def fragment(self) -> Fragment:
        """The operation with a constant, or without."""
        return self.fragments[self.value is None]

    def summary(self) -> tuple[str, ...]:
        """Return the constant."""
        return ("values of the input" if self.value is None else f"constant {self.value}",)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other constants, and the input at other places."""
        [x] = inputs
        right, outside = self.prepare()(x), self.places.reshape(-1) < 0
        for cause, value in (("0", 0), ("128", 128), ("-128", -128), ("the lowest code", None)):
            if self.dtype != FLOAT32 and self.value is not None:
                limits = np.iinfo(self.dtype)
                constant = limits.min if value is None else value
                if limits.min <= constant <= limits.max and constant != self.value:
                    wrong = np.where(outside, self.dtype.type(constant), right)
                    yield FaultModel(f"the constant is {cause}", str(self.value), wrong)
        for name, axis in (("row", -2), ("column", -1)):
            if self.places.ndim >= -axis:
                images = right.reshape(len(x), *self.output.shape)
                for cause, step in (("early", -1), ("late", 1)):
                    moved = np.roll(images, step, axis=axis).reshape(right.shape)
                    yield FaultModel(f"the input begins one {name} too {cause}", "the pads of the node", moved)
