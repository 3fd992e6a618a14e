"""AveragePool in CUDA: a sum in the order of the window, then a division."""

from __future__ import annotations

from harness.operators.average_pool import AveragePool
from harness.targets.cuda.code import tables_of
from harness.targets.cuda.windows import WindowLowering, window
from harness.targets.generated import Table


class AveragePoolLowering(WindowLowering[AveragePool]):
    """One addition per value of a window."""

    operator = AveragePool

    def tables(self, layer: AveragePool) -> tuple[Table, ...]:
        """Return the divisor of every window."""
        return tables_of(layer, {"count": layer.count})

    def value(self, layer: AveragePool) -> str:
        """Call kernels/cuda/windows.cuh."""
        return f"{window(layer.window)}\nreturn average_pool(window, x_0, {layer.name}_count, n);"
