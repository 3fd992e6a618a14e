"""Slice (ONNX), any type: some values of the axes of a vector, with positive steps.

y[i, j, ...] = x[start + i * step, ...]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, Places, of_steps
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import INT64
from harness.operators.text import moving

INT32 = np.dtype(np.int32)

BEYOND = 2**31 - 1
"""The least end that stands for the end of any axis."""


@dataclass(frozen=True, eq=False)
class Slice(Move):
    """The values from `starts` up to `ends` of some axes; all vectors."""

    ONNX = (("", "Slice"),)
    text = Move.text.but(
        "y = x[starts:ends:steps] on each of the axes",
        ("x", "starts", "ends", "axes", "steps"),
        moving("slice_axes", 94, "ONNX Slice: some values of the axes of a vector."),
    )
    counts: ClassVar = {"Slice": (3, 5)}

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the number of values that are taken of each axis."""
        x, y = node.x, node.y
        node.same_type(x, y).equals(x.rank, y.rank)

        def sizes(rank: int, starts: Array, ends: Array, axes: Array | None, steps: Array | None) -> None:
            count = len(starts)
            taken = range(count) if axes is None else [node.axis(int(axis), rank) for axis in axes]
            strides = [1] * count if steps is None else [int(step) for step in steps]
            node.require(
                len(ends) == len(taken) == len(strides) == count, "starts, ends, axes and steps have one length"
            )
            for axis in {*range(rank)} - {*taken}:
                node.equals(y.size(axis), x.size(axis))
            for axis, *bounds in zip(taken, starts, ends, strides, strict=True):
                node.given(x.size(axis)).then(lambda size, axis=axis, bounds=bounds: part(axis, size, *bounds))

        def part(axis: int, size: Size, start: Any, end: Any, step: int) -> None:
            whole, first, last = (Size.of(each).constant for each in (size, start, end))
            node.require(step != 0, "a step is 0")
            if whole is not None and first is not None and last is not None:
                node.equals(y.size(axis), len(range(whole)[first:last:step]))
            elif first == 0 and step == 1 and last is not None and last >= BEYOND:
                node.equals(y.size(axis), size)

        names = ("starts", "ends", "axes", "steps")
        node.parameters(
            zip(names, range(1, 5), strict=True),
            lambda *values: node.given(x.rank).then(lambda rank: sizes(rank, *values)),
        )

    @classmethod
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the values between constant bounds."""
        node.attributes({})
        places = x[_slices(node, 1 + x.ndim)]
        if not places.size:
            raise node.refusal("it takes no values", "starts before ends")
        return of_steps(places)


def _slices(node: Node, rank: int) -> tuple[slice, ...]:
    """Return the part of each axis of a vector; `rank` is the number of axes with that of the vectors."""
    starts, ends = (node.constant(position, name, [INT64, INT32]) for position, name in ((1, "starts"), (2, "ends")))
    axes = node.constant(3, "axes", [INT64, INT32]) if node.has(3) else np.arange(len(starts))
    steps = node.constant(4, "steps", [INT64, INT32]) if node.has(4) else np.ones(len(starts), np.int64)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise node.refusal("starts, ends, axes and steps have different lengths", "one number for each axis")
    found = [slice(None)] * rank
    for start, end, axis, step in zip(*(each.tolist() for each in (starts, ends, axes, steps)), strict=True):
        if not -rank <= axis < rank or axis % rank == 0:
            raise node.refusal(f"axes is {axes.tolist()}", f"axes 1 to {rank - 1}: the values of one vector")
        if step < 1:
            raise node.refusal(f"steps is {steps.tolist()}", "steps of 1 or more")
        found[axis % rank] = slice(start, end, step)
    return tuple(found[1:])
