"""Operators that move values, in C: nested loops over the axes of the output, or a table of places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from harness.operators.exact.stages import Axis, Place
from harness.operators.move import Move
from harness.operators.order import Copy
from harness.operators.qlinear_concat import QLinearConcat
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class MoveLowering(CLowering[Move]):
    """One copy per value; a constant is everywhere first."""

    operator = Move

    def plain(self, layer: Move, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the axes of what is copied."""
        order = layer.order
        if order.steps is None:
            places = Table(f"{layer.name}_places", layer.places)
            return code.elementwise(layer, sources, (places,), code.loop(layer, f"out[n] = in[{places.name}[n]];"))
        tables = () if order.filler is None else (Table(f"{layer.name}_value", np.atleast_1d(order.filler)),)
        fill = [code.loop(layer, f"out[n] = {table.name}[0];") for table in tables]
        copies = [_loops(copy, order.steps.shape, _source(layer, copy.number)) for copy in layer.boxes]
        return _of_inputs(layer, sources, tables, "\n    ".join([*fill, *copies]))

    def unrolled(self, layer: Move, sources: Sequence[str]) -> LayerCode:
        """Write every copy."""
        starts = np.cumsum([0, *(tensor.size for tensor in layer.inputs)])
        numbers = np.searchsorted(starts, layer.places, "right") - 1
        pairs = zip(layer.places.tolist(), numbers.tolist(), strict=True)
        values = (
            f"{_source(layer, number)}[{at - starts[number]}]" if at >= 0 else literal(layer.order.filler)
            for at, number in pairs
        )
        return _of_inputs(layer, sources, (), code.assigned(values))


class QLinearConcatLowering(CLowering[QLinearConcat]):
    """An access to a table of 256 codes per value; an input that has the quantisation of the output is copied."""

    operator = QLinearConcat
    headers = ("lookup.h", "lookup_vector.h")

    def plain(self, layer: QLinearConcat, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/lookup.h."""
        return _looked_up(layer, sources, f"{prefix}lookup")

    def vector(self, layer: QLinearConcat, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/lookup_vector.h."""
        return _looked_up(layer, sources, "lookup_vector")

    def inlined(self, layer: QLinearConcat, sources: Sequence[str]) -> LayerCode:
        """Loop over the values of each input."""
        return _looked_up(layer, sources)

    def unrolled(self, layer: QLinearConcat, sources: Sequence[str]) -> LayerCode:
        """Write every access."""
        places = ((number, n) for number, source in enumerate(layer.inputs) for n in range(source.size))
        values = (_entry(layer, number, str(n)) for number, n in places)
        return code.of_inputs(layer, sources, code.assigned(values), (_codes(layer),))


def _source(layer: Move, number: int) -> str:
    return "in" if len(layer.inputs) == 1 else f"in_{number}"


def _of_inputs(layer: Move, sources: Sequence[str], tables: tuple[Table, ...], body: str) -> LayerCode:
    if len(sources) == 1:
        return code.elementwise(layer, sources, tables, body)
    return code.of_inputs(layer, sources, body, tables)


def _loops(copy: Copy, shape: Sequence[int], source: str) -> str:
    """Return a loop for each axis of a box that is longer than 1."""
    axes = [Axis(f"i{number}", size) for number, size in enumerate(copy.sizes)]
    strides = [math.prod(shape[number + 1 :]) for number in range(len(shape))]
    begin = sum(at * stride for at, stride in zip(copy.begins, strides, strict=True))
    steps = ((strides, begin), (copy.steps, copy.place))
    to, place = (_text(zip(axes, own, strict=True), first) for own, first in steps)
    names = [(axis.name, axis.size) for axis in axes if axis.size > 1]
    loops = [f"for (size_t {name} = 0; {name} < {size}u; ++{name})" for name, size in names]
    lines = [f"{'    ' * depth}{line}" for depth, line in enumerate([*loops, f"out[{to}] = {source}[{place}];"])]
    return "\n    ".join(lines)


def _text(steps: Iterable[tuple[Axis, int]], first: int) -> str:
    return Place(tuple(pair for pair in steps if pair[1]), first).text(lambda axis: axis.name)


def _looked_up(layer: QLinearConcat, sources: Sequence[str], function: str = "") -> LayerCode:
    """Return calls of a function for each input, loops without one."""
    return code.of_inputs(layer, sources, "\n    ".join(_of_each_input(layer, function)), (_codes(layer),))


def _of_each_input(layer: QLinearConcat, function: str) -> Iterator[str]:
    start = 0
    for number, source in enumerate(layer.inputs):
        if function and layer.x[number] != layer.y:
            table = f"{layer.name}_table[{number}]"
            yield f"{function}_{layer.dtype}({source.size}, in_{number}, {table}, &out[{start}]);"
        else:
            value = _entry(layer, number, "n")
            yield f"for (size_t n = 0; n < {source.size}u; ++n)\n        out[{start} + n] = {value};"
        start += source.size


def _entry(layer: QLinearConcat, number: int, place: str) -> str:
    code_read = f"in_{number}[{place}]"
    if layer.x[number] == layer.y:
        return code_read
    return f"{layer.name}_table[{number}][{code_read} - ({np.iinfo(layer.dtype).min})]"


def _codes(layer: QLinearConcat) -> Table:
    return Table(f"{layer.name}_table", layer.table(), "outputs for all codes of each input, from the lowest on")
