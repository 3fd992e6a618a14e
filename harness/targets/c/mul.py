"""Mul in C: the second factor is an activation or a constant table."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.mul import Mul
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class MulLowering(CLowering[Mul]):
    """One multiplication per value."""

    operator = Mul
    headers = ("mul.h",)

    def plain(self, layer: Mul, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/mul.h."""
        tables, other = _second_factor(layer)
        return code.elementwise(layer, sources, tables, f"{prefix}mul_float32({layer.size}, in, {other}, out);")

    def inlined(self, layer: Mul, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        tables, other = _second_factor(layer)
        return code.elementwise(layer, sources, tables, code.loop(layer, f"out[n] = in[n] * {other}[n];"))

    def unrolled(self, layer: Mul, sources: Sequence[str]) -> LayerCode:
        """Write every multiplication."""
        others = [f"other[{n}]" for n in range(layer.size)] if layer.factor is None else map(literal, layer.factor)
        products = code.assigned(f"in[{n}] * {other}" for n, other in enumerate(others))
        return code.elementwise(layer, sources, (), products)


def _second_factor(layer: Mul) -> tuple[tuple[Table, ...], str]:
    """Return the table of a constant factor, if it is one, and the name of the array."""
    if layer.factor is None:
        return (), "other"
    factor = Table(f"{layer.name}_factor", layer.factor)
    return (factor,), factor.name
