"""Operators that move values, in C: nested loops over the axes of the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.move import Move
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal

M = TypeVar("M", bound=Move)


class MoveLowering(CLowering[M]):
    """One copy per value; the places of the input rise by the same step along each axis of the output."""

    def tables(self, layer: M) -> tuple[Table, ...]:  # noqa: ARG002 - of an operator that fills places
        """Return the table of the value of places without an input, if there can be any."""
        return ()

    def plain(self, layer: M, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the axes of what is copied."""
        tables = self.tables(layer)
        fill = [code.loop(layer, f"out[n] = {tables[0].name}[0];")] if tables else []
        return code.elementwise(layer, sources, tables, "\n    ".join([*fill, _copies(layer.places)]))

    def unrolled(self, layer: M, sources: Sequence[str]) -> LayerCode:
        """Write every copy."""
        places = layer.places.reshape(-1).tolist()
        values = (f"in[{at}]" if at >= 0 else literal(layer.filler) for at in places)
        return code.elementwise(layer, sources, (), code.assigned(values))


def _copies(places: Array) -> str:
    """Return loops over the box of the output that is copied, one for each of its axes longer than 1."""
    inside = np.argwhere(places >= 0)
    first, sizes = inside.min(axis=0), np.ptp(inside, axis=0) + 1
    box = places[tuple(slice(at, at + size) for at, size in zip(first, sizes, strict=True))]
    loops: list[str] = []
    target = [str(np.arange(places.size).reshape(places.shape)[tuple(first)])]
    source = [str(box.reshape(-1)[0])]
    for axis in np.flatnonzero(sizes > 1):
        step = int(box.take(1, axis).reshape(-1)[0] - box.reshape(-1)[0])
        over = int(np.prod(places.shape[axis + 1 :]))
        indent = "    " * len(loops)
        loops.append(f"{indent}for (size_t i{axis} = 0; i{axis} < {sizes[axis]}; ++i{axis})")
        target.append(f"i{axis} * {over}")
        source.append(f"i{axis} * {step}")
    copy = f"out[{' + '.join(target)}] = in[{' + '.join(source)}];"
    return "\n    ".join([*loops, f"{'    ' * len(loops)}{copy}"])
