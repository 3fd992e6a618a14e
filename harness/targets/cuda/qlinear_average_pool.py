"""QLinearAveragePool in CUDA: each mean is a sum in float32, in the order of the window."""

from __future__ import annotations

import numpy as np

from harness.operators.qlinear_average_pool import QLinearAveragePool
from harness.targets.cuda.code import VectorLowering, c_type, window
from harness.targets.generated import Table


class QLinearAveragePoolLowering(VectorLowering[QLinearAveragePool]):
    """One value at a time."""

    operator = QLinearAveragePool

    def tables(self, layer: QLinearAveragePool) -> tuple[Table, ...]:
        """Return scales and zero points."""
        numbers = {
            "input_step": layer.x.scale,
            "input_zero_point": np.int32(layer.x.zero_point),
            "output_step": layer.y.scale,
            "output_zero_point": np.int32(layer.y.zero_point),
        }
        return tuple(
            Table(f"{layer.name}_{name}", np.atleast_1d(value), computed=True) for name, value in numbers.items()
        )

    def value(self, layer: QLinearAveragePool) -> str:
        """Compute the mean of a window."""
        kinds = f"{c_type(layer.dtype)}, {window(layer.window)}, {str(layer.count_include_pad).lower()}"
        numbers = ", ".join(f"{table.name}[0]" for table in self.tables(layer))
        return f"return average_pool<{kinds}>(x_0, {numbers}, n);"
