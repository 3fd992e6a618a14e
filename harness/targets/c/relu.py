"""Relu in C: one selection per value."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.relu import Relu
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode


class ReluLowering(CLowering[Relu]):
    """One value at a time."""

    operator = Relu
    headers = ("relu.h",)

    def plain(self, layer: Relu, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/relu.h."""
        return code.elementwise(layer, sources, (), f"{prefix}relu_{layer.dtype}({layer.size}, in, out);")

    def inlined(self, layer: Relu, sources: Sequence[str]) -> LayerCode:
        """Loop over the values."""
        return code.elementwise(layer, sources, (), code.loop(layer, f"out[n] = {_selected(layer, 'in[n]')};"))

    def unrolled(self, layer: Relu, sources: Sequence[str]) -> LayerCode:
        """Write every selection."""
        values = (_selected(layer, f"in[{n}]") for n in range(layer.size))
        return code.elementwise(layer, sources, (), code.assigned(values))


def _selected(layer: Relu, x: str) -> str:
    zero = "0" if layer.of_codes else "0.0f"
    return f"{x} < {zero} ? {zero} : {x}"
