"""Operators of two terms in C: Add, Sub and Mul; a term is an activation or a constant table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from harness.operators.base import Layer
from harness.targets.c import code
from harness.targets.c.code import CLowering, L
from harness.targets.generated import LayerCode, Table, literal


class BinaryLowering(CLowering[L]):
    """One float32 operation per value: out[n] = a[n] `symbol` b[n]."""

    kernel: ClassVar[str]
    """Name of the function in the operator's header, without prefix."""
    symbol: ClassVar[str]
    first: ClassVar[str] = ""
    """Name of the constant that takes the place of a; any other constant takes that of b."""

    def plain(self, layer: L, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call the function of the operator's header."""
        a, b = self._arrays(layer)
        return code.elementwise(layer, sources, _tables(layer), f"{prefix}{self.kernel}({layer.size}, {a}, {b}, out);")

    def inlined(self, layer: L, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        a, b = self._arrays(layer)
        statement = code.loop(layer, f"out[n] = {a}[n] {self.symbol} {b}[n];")
        return code.elementwise(layer, sources, _tables(layer), statement)

    def unrolled(self, layer: L, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the constants as literals."""
        constants = {table.name: [literal(value) for value in table.values] for table in _tables(layer)}
        a, b = (constants.get(array) or [f"{array}[{n}]" for n in range(layer.size)] for array in self._arrays(layer))
        operations = (f"{first} {self.symbol} {second}" for first, second in zip(a, b, strict=True))
        return code.elementwise(layer, sources, (), code.assigned(operations))

    def _arrays(self, layer: Layer) -> tuple[str, str]:
        """Return the names of the arrays that hold a and b."""
        tables = _tables(layer)
        if not tables:
            return "in", "other"
        return (tables[0].name, "in") if self.first in layer.constants() else ("in", tables[0].name)


def _tables(layer: Layer) -> tuple[Table, ...]:
    """Return the table of the constant term, if there is one."""
    return tuple(Table(f"{layer.name}_{role}", np.asarray(values)) for role, values in layer.constants().items())
