"""LRN in C: sums of squares over channels, then square roots and a quotient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.lrn import Lrn
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class LrnLowering(CLowering[Lrn]):
    """Loops over channels and positions."""

    operator = Lrn
    headers = ("lrn.h",)

    def plain(self, layer: Lrn, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/lrn.h."""
        factor, bias = tables = tuple(
            Table(f"{layer.name}_{role}", np.atleast_1d(layer.facts()[role])) for role in ("factor", "bias")
        )
        channels = layer.input.shape[0]
        sizes = f"{channels}, {layer.size // channels}, {layer.length}, {layer.quarters}"
        call = f"{prefix}lrn_float32({sizes}, in, {factor.name}[0], {bias.name}[0], out);"
        return code.elementwise(layer, sources, tables, call)

    def unrolled(self, layer: Lrn, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the numbers as literals."""
        positions, values = layer.size // layer.input.shape[0], []
        for c, window in enumerate(layer.windows()):
            for p in range(positions):
                squares = (f"in[{j * positions + p}] * in[{j * positions + p}]" for j in window)
                base = f"{literal(layer.bias)} + {literal(layer.factor)} * ({' + '.join(['0.0f', *squares])})"
                values.append(f"in[{c * positions + p}] / power_of_quarters({base}, {layer.quarters})")
        return code.elementwise(layer, sources, (), code.assigned(values))
