"""Operators that move values, in CUDA: by steps along parts of the axes of the output, or by a table of places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.operators.base import Layer
from harness.operators.exact.stages import Axis, Place
from harness.operators.move import Move
from harness.operators.order import Copy
from harness.operators.qlinear_concat import QLinearConcat
from harness.operators.rename import Rename
from harness.targets.cuda.broadcast import place
from harness.targets.cuda.code import FusedTask, VectorLowering, in_same_words, tables_of
from harness.targets.generated import Table


class MoveLowering(VectorLowering[Move]):
    """One copy per value, from the place that each axis of the output contributes to.

    A Rename is no copy in a fused kernel if the words of both tiles are the same.
    """

    operator = Move

    def renames(self, layer: Move) -> bool:
        """Return whether the output is the source in another shape."""
        return isinstance(layer, Rename)

    def tables(self, layer: Move) -> tuple[Table, ...]:
        """Return the constant, and the places if they follow no steps."""
        order = layer.order
        places = {"places": layer.places} if order.steps is None else {}
        return tables_of(layer, places if order.filler is None else {"value": order.filler})

    def value(self, layer: Move) -> str:
        """Copy the value from its place; outputs without an input have the value of a table."""
        if layer.order.steps is None:
            return f"return x_0[{layer.name}_places[n]];"
        axes = [Axis(f"i{number}", size) for number, size in enumerate(layer.order.steps.shape)]
        text = "\n".join(self._returns(layer, axes))
        used = (axis for axis in axes if axis.name in text)
        indices = [(axis.name, place([(other.size, int(other is axis)) for other in axes])) for axis in used]
        lines = [*(f"const unsigned {name} = {index};" for name, index in indices), text]
        return "\n".join(lines if indices else ["(void)n;", *lines])

    def _returns(self, layer: Move, axes: Sequence[Axis]) -> Iterator[str]:
        """Yield a return of the value of each box of places, and of the filler outside of them."""
        has_filler = layer.order.filler is not None
        for copy in layer.boxes:
            inside = _conditions(copy, axes)
            is_last = not has_filler and copy is layer.boxes[-1]
            condition = "" if is_last or not inside else f"if ({' && '.join(inside)})\n    "
            first = copy.place - sum(begin * step for begin, step in zip(copy.begins, copy.steps, strict=True))
            steps = tuple((axis, step) for axis, step in zip(axes, copy.steps, strict=True) if step)
            yield f"{condition}return x_{copy.number}[{Place(steps, first).text(lambda axis: axis.name)}];"
        if has_filler:
            yield f"return {layer.name}_value[0];"

    def fused_function(self, layer: Move) -> str:
        """Return the same, or nothing."""
        return "" if self._stays(layer) else super().fused_function(layer)

    def steps(self, task: FusedTask) -> list[str]:
        """Copy the values, or nothing."""
        return [] if self._stays(task.layer) else super().steps(task)

    def _stays(self, layer: Layer) -> bool:
        return isinstance(layer, Rename) and in_same_words(layer.input, layer.output)


class QLinearConcatLowering(VectorLowering[QLinearConcat]):
    """One access per value to a table of 256 codes for each input."""

    operator = QLinearConcat

    def tables(self, layer: QLinearConcat) -> tuple[Table, ...]:
        """Return the outputs for all codes of each input."""
        origin = "outputs for all codes of each input, from the lowest on"
        return (Table(f"{layer.name}_table", layer.table(), origin, computed=True),)

    def value(self, layer: QLinearConcat) -> str:
        """Find the input of an output by its place, and look its code up."""
        lines, start = [], 0
        for number, tensor in enumerate(layer.inputs):
            entry = f"x_{number}[n - {start}u] - ({np.iinfo(layer.dtype).min})"
            start += tensor.size
            condition = f"if (n < {start})\n    " if start < layer.size else ""
            lines.append(f"{condition}return {layer.name}_table[{number}][{entry}];")
        return "\n".join(lines)


def _conditions(copy: Copy, axes: Sequence[Axis]) -> list[str]:
    """Return the conditions for an output in a box."""
    conditions = []
    for axis, begin, size in zip(axes, copy.begins, copy.sizes, strict=True):
        conditions += [f"{axis.name} >= {begin}"] * (begin > 0)
        conditions += [f"{axis.name} < {begin + size}"] * (begin + size < axis.size)
    return conditions
