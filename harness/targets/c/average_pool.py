"""AveragePool in C: a sum in the order of each window, then a division."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.average_pool import AveragePool
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal


class AveragePoolLowering(CLowering[AveragePool]):
    """Loops over adjacent windows; no branch depends on data."""

    operator = AveragePool
    headers = ("average_pool.h", "average_pool_vector.h")

    def plain(self, layer: AveragePool, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/average_pool.h."""
        count = _count(layer)
        call = f"{prefix}average_pool_float32(&window, {layer.input.shape[0]}, in, {count.name}, out);"
        return code.elementwise(layer, sources, (count,), f"{code.window(layer.window)}\n    {call}")

    def vector(self, layer: AveragePool, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/average_pool_vector.h."""
        count = _count(layer)
        sums = code.pool_vector("average_pool_sum", layer)
        divide = f"average_pool_divide({layer.input.shape[0]}, {layer.window.positions}, {count.name}, out);"
        return code.elementwise(layer, sources, (count,), f"{sums}\n    {divide}")

    def unrolled(self, layer: AveragePool, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the divisors as literals."""
        windows = layer.window.sources(layer.input.shape[0]).reshape(layer.size, -1)
        counts = np.tile(layer.count, layer.input.shape[0])
        sums = (" + ".join(["0.0f", *(f"in[{at}]" for at in places if at >= 0)]) for places in windows.tolist())
        values = (f"({total}) / {literal(count)}" for total, count in zip(sums, counts, strict=True))
        return code.elementwise(layer, sources, (), code.assigned(values))


def _count(layer: AveragePool) -> Table:
    return Table(f"{layer.name}_count", layer.count)
