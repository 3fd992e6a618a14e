"""Operators that move values, in C: nested loops over the axes of the output, or a table of places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.move import Move
from harness.operators.pad import Pad
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class MoveLowering(CLowering[Move]):
    """One copy per value; the places of the input have steps along parts of each axis of the output, or are a table.

    The constant of Pad is everywhere first.
    """

    operator = Move

    def plain(self, layer: Move, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the axes of what is copied."""
        if layer.table:
            places = Table(f"{layer.name}_places", layer.places.reshape(-1))
            body = code.loop(layer, f"out[n] = in[{places.name}[n]];")
            return code.elementwise(layer, sources, (places,), body)
        tables = _constant(layer)
        fill = [code.loop(layer, f"out[n] = {tables[0].name}[0];")] if tables else []
        return code.elementwise(layer, sources, tables, "\n    ".join([*fill, *_copies(layer)]))

    def unrolled(self, layer: Move, sources: Sequence[str]) -> LayerCode:
        """Write every copy."""
        places = layer.places.reshape(-1).tolist()
        values = (f"in[{at}]" if at >= 0 else literal(layer.filler) for at in places)
        return code.elementwise(layer, sources, (), code.assigned(values))


def _constant(layer: Move) -> tuple[Table, ...]:
    """Return the table of the value of places without an input, if there are any."""
    if not isinstance(layer, Pad) or layer.value is None:
        return ()
    return (Table(f"{layer.name}_value", np.atleast_1d(layer.value)),)


def _copies(layer: Move) -> Iterator[str]:
    """Yield loops over each box of the output that is copied, one for each of its axes longer than 1."""
    places = layer.stepped
    numbers = np.arange(places.size).reshape(places.shape)
    for spans in itertools.product(*layer.spans()):
        box = tuple(slice(span.begin, span.begin + span.size) for span in spans)
        yield _copy(places[box], numbers[box])


def _copy(box: Array, target: Array) -> str:
    loops: list[str] = []
    to, source = str(target.reshape(-1)[0]), str(box.reshape(-1)[0])
    for axis in [axis for axis, size in enumerate(box.shape) if size > 1]:
        over, step = (int(each.take(1, axis).reshape(-1)[0] - each.reshape(-1)[0]) for each in (target, box))
        loops.append(f"{'    ' * len(loops)}for (size_t i{axis} = 0; i{axis} < {box.shape[axis]}u; ++i{axis})")
        to += f" + i{axis} * {over}"
        source += f" {'-' if step < 0 else '+'} i{axis} * {abs(step)}"
    return "\n    ".join([*loops, f"{'    ' * len(loops)}out[{to}] = in[{source}];"])
