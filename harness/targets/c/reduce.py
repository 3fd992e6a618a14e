"""ReduceSum, ReduceMean, ReduceMax and ReduceMin in C: the loops over the reduced axes are the outer ones.

No branch depends on data, and the inner loops over outputs are vectorised without a change of the order of a sum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from harness.operators.reduce import Reduce
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal

Axis = tuple[int, int, int]
"""The size of an axis, its step in the input, and that in the output."""


class ReduceLowering(CLowering[Reduce]):
    """Each value of the input is added to its output, or compared with it."""

    operator = Reduce

    def plain(self, layer: Reduce, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the axes."""
        tables = tuple(Table(f"{layer.name}_{role}", values) for role, values in layer.facts().items())
        kept, reduced = _axes(layer)
        first = _loops(kept, lambda y, x: f"{y} = {x if layer.chooses else '0.0f'};")
        each = _loops([*reduced, *kept], lambda y, x: f"{y} = {_combined(layer, y, x)};")
        divided = [code.loop(layer, f"out[n] /= {table.name}[0];") for table in tables]
        return code.elementwise(layer, sources, tables, "\n    ".join([first, each, *divided]))

    def unrolled(self, layer: Reduce, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the divisor as a literal."""
        places = layer.values(np.arange(layer.input.size)[None])[0].tolist()
        if layer.chooses:
            lines = []
            for n, (first, *rest) in enumerate(places):
                lines += [f"out[{n}] = in[{first}];"]
                lines += [f"out[{n}] = {_combined(layer, f'out[{n}]', f'in[{at}]')};" for at in rest]
            return code.elementwise(layer, sources, (), "\n    ".join(lines))
        sums = (" + ".join(["0.0f", *(f"in[{at}]" for at in row)]) for row in places)
        divisors = [f" / {literal(count[0])}" for count in layer.facts().values()]
        return code.elementwise(layer, sources, (), code.assigned(f"({total}){''.join(divisors)}" for total in sums))


def _combined(layer: Reduce, y: str, x: str) -> str:
    signs = {"ReduceMax": ">", "ReduceMin": "<"}
    return f"{x} {signs[layer.operator]} {y} ? {x} : {y}" if layer.chooses else f"{y} + {x}"


def _axes(layer: Reduce) -> tuple[list[Axis], list[Axis]]:
    """Return the kept and the reduced axes; adjacent ones of a kind are one."""
    shape, kept, reduced = layer.input.shape, list[Axis](), list[Axis]()
    runs = [list(run) for _, run in itertools.groupby(range(len(shape)), lambda axis: axis in layer.axes)]
    for run in runs:
        size, behind = math.prod(shape[axis] for axis in run), range(run[-1] + 1, len(shape))
        step = math.prod(shape[axis] for axis in behind)
        over = math.prod(shape[axis] for axis in behind if axis not in layer.axes)
        if size > 1:
            (reduced if run[0] in layer.axes else kept).append((size, step, 0 if run[0] in layer.axes else over))
    return kept, reduced


def _loops(axes: Sequence[Axis], statement: Callable[[str, str], str]) -> str:
    """Return loops around a statement about a value of the output and one of the input."""
    lines = [f"{'    ' * depth}for (size_t i{depth} = 0; i{depth} < {axis[0]}u; ++i{depth})"
             for depth, axis in enumerate(axes)]  # fmt: skip
    y, x = (" + ".join(f"i{depth} * {axis[of]}" for depth, axis in enumerate(axes) if axis[of]) or "0" for of in (2, 1))
    return "\n    ".join([*lines, "    " * len(axes) + statement(f"out[{y}]", f"in[{x}]")])
