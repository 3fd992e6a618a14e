"""AveragePool in CUDA: a sum in the order of the window, then a division."""

from __future__ import annotations

from harness.operators.average_pool import AveragePool
from harness.targets.cuda.code import VectorLowering, tables_of, window
from harness.targets.generated import Table


class AveragePoolLowering(VectorLowering[AveragePool]):
    """One addition per value of a window."""

    operator = AveragePool

    def tables(self, layer: AveragePool) -> tuple[Table, ...]:
        """Return the divisor of every window."""
        return tables_of(layer, {"count": layer.count})

    def value(self, layer: AveragePool) -> str:
        """Call kernels/cuda/floats.cuh."""
        return f"return average_pool_float<{window(layer.window)}>(x_0, {layer.name}_count, n);"
