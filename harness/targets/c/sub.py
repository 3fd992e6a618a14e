"""Sub in C: either term can be a constant table."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.sub import Sub
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class SubLowering(CLowering[Sub]):
    """One subtraction per value."""

    operator = Sub
    headers = ("sub.h",)

    def plain(self, layer: Sub, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/sub.h."""
        tables, a, b = _terms(layer)
        return code.elementwise(layer, sources, tables, f"{prefix}sub_float32({layer.size}, {a}, {b}, out);")

    def inlined(self, layer: Sub, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        tables, a, b = _terms(layer)
        return code.elementwise(layer, sources, tables, code.loop(layer, f"out[n] = {a}[n] - {b}[n];"))

    def unrolled(self, layer: Sub, sources: Sequence[str]) -> LayerCode:
        """Write every subtraction."""
        first = map(literal, layer.minuend) if layer.minuend is not None else (f"in[{n}]" for n in range(layer.size))
        array = "in" if layer.minuend is not None else "other"
        second = (
            map(literal, layer.subtrahend)
            if layer.subtrahend is not None
            else (f"{array}[{n}]" for n in range(layer.size))
        )
        differences = (f"{a} - {_parenthesised(b)}" for a, b in zip(first, second, strict=True))
        return code.elementwise(layer, sources, (), code.assigned(differences))


def _terms(layer: Sub) -> tuple[tuple[Table, ...], str, str]:
    """Return the table of a constant term, if there is one, and the names of the arrays of both terms."""
    if layer.minuend is not None:
        table = Table(f"{layer.name}_minuend", layer.minuend)
        return (table,), table.name, "in"
    if layer.subtrahend is not None:
        table = Table(f"{layer.name}_subtrahend", layer.subtrahend)
        return (table,), "in", table.name
    return (), "in", "other"


def _parenthesised(term: str) -> str:
    return f"({term})" if term.startswith("-") else term
