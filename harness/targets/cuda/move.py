"""Operators that move values, in CUDA: by steps along parts of the axes of the output, or by a table of places."""

from __future__ import annotations

from harness.operators.move import Move, Span
from harness.operators.pad import Pad
from harness.targets.cuda.broadcast import place
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class MoveLowering(VectorLowering[Move]):
    """One copy per value, from the place that each axis of the output contributes to."""

    operator = Move

    def tables(self, layer: Move) -> tuple[Table, ...]:
        """Return the constant of Pad, or the places if they follow no steps."""
        if isinstance(layer, Pad):
            return tables_of(layer, {} if layer.value is None else {"value": layer.value})
        return tables_of(layer, {"places": layer.places.reshape(-1)} if layer.table else {})

    def value(self, layer: Move) -> str:
        """Copy the value from its place; outputs without an input have the value of a table."""
        if layer.table:
            return f"return x_0[{layer.name}_places[n]];"
        shape, lines, terms = layer.stepped.shape, [], ""
        first = int(layer.stepped[tuple(spans[0].begin for spans in layer.spans())])
        for axis, spans in enumerate(layer.spans()):
            if shape[axis] == 1 or spans == [Span(0, shape[axis], 0, 0)]:
                continue
            index, begin, end = f"i{axis}", spans[0].begin, spans[-1].begin + spans[-1].size
            lines.append(f"const unsigned {index} = {place([(size, int(n == axis)) for n, size in enumerate(shape)])};")
            if end - begin < shape[axis]:
                outside = f"{index} < {begin} || {index} >= {end}" if begin else f"{index} >= {end}"
                lines.append(f"if ({outside})\n    return {layer.name}_value[0];")
            if len(spans) == 1:
                first += _constant(spans[0])
                terms += _scaled(index, spans[0].step)
            else:
                parts = [f"{_constant(span)}{_scaled(index, span.step)}" for span in spans]
                ends = [f"{index} < {span.begin + span.size} ? " for span in spans[:-1]]
                terms += f" + ({' : '.join(map(str.__add__, [*ends, ''], parts))})"
        return "\n".join([*lines, f"return x_0[{first}{terms}];"])


def _constant(span: Span) -> int:
    return span.place - span.begin * span.step


def _scaled(index: str, step: int) -> str:
    """Return a term of a sum, with its sign; indices are unsigned, and sums are modulo 2^32."""
    product = index if abs(step) == 1 else f"{index} * {abs(step)}"
    return f" {'-' if step < 0 else '+'} {product}" if step else ""
