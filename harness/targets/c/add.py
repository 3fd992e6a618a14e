"""Add in C: the second term is an activation or a constant table."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.add import Add
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class AddLowering(CLowering[Add]):
    """One addition per value."""

    operator = Add

    def plain(self, layer: Add, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/add.h."""
        tables, other = _second_term(layer)
        return code.elementwise(layer, sources, tables, f"{prefix}add_float32({layer.size}, in, {other}, out);")

    def inlined(self, layer: Add, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        tables, other = _second_term(layer)
        return code.elementwise(layer, sources, tables, code.loop(layer, f"out[n] = in[n] + {other}[n];"))

    def unrolled(self, layer: Add, sources: Sequence[str]) -> LayerCode:
        """Write every addition."""
        others = [f"other[{n}]" for n in range(layer.size)] if layer.addend is None else map(literal, layer.addend)
        sums = code.assigned(f"in[{n}] + {other}" for n, other in enumerate(others))
        return code.elementwise(layer, sources, (), sums)


def _second_term(layer: Add) -> tuple[tuple[Table, ...], str]:
    """Return the table of a constant term, if it is one, and the name of the array."""
    if layer.addend is None:
        return (), "other"
    addend = Table(f"{layer.name}_addend", layer.addend)
    return (addend,), addend.name
