"""Operands with broadcasting in CUDA: the place of an output in arrays that are repeated along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.operators import broadcast


def values(shape: tuple[int, ...], arrays: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[str]:
    """Return what output n reads of each array; the arrays have the shapes, the output has `shape`."""
    axes = broadcast.axes(shape, shapes)
    return [f"{array}[{place([(size, steps[n]) for size, steps in axes])}]" for n, array in enumerate(arrays)]


def place(axes: Sequence[tuple[int, int]], number: str = "n") -> str:
    """Return the place of value `number` in an array with a step, 0 or more, along each axis of the output."""
    terms, sizes = [], [size for size, _ in axes]
    for axis, (size, step) in enumerate(axes):
        inner, outer = math.prod(sizes[axis + 1 :]), math.prod(sizes[:axis])
        if step and size > 1:
            index = number + (f" / {inner}" if inner > 1 else "") + (f" % {size}" if outer > 1 else "")
            terms.append(index if step == 1 else f"{index} * {step}")
    return " + ".join(terms) or "0"
