"""QLinearAveragePool on a core: float32 sums by integers, then thresholds for each number of values of a window."""

from __future__ import annotations

import numpy as np

from harness.operators.qlinear_average_pool import QLinearAveragePool
from harness.targets.generated import Table
from harness.targets.tiovx import windows
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head


class QLinearAveragePoolLowering(TiovxLowering[QLinearAveragePool]):
    """Add multiples of a unit, each sum rounded to 24 digits (kernels/c/integer/rounded_sum.h)."""

    operator = QLinearAveragePool
    kernel = "KERNEL_QLINEAR_AVERAGE_POOL"

    def constants(self, layer: QLinearAveragePool) -> Constants:
        """Return thresholds, the row of each position, the terms of all codes, and the windows."""
        name, (terms, exponent) = layer.name, layer.terms()
        _, rows = np.unique(layer.counts(), return_inverse=True)
        origin = "for each count the least float32 sums, as ordered numbers, that become each code above the lowest"
        outside = layer.x.zero_point - int(np.iinfo(layer.dtype).min)
        parts = {
            "TABLE": Table(f"{name}_thresholds", layer.thresholds().astype(np.int32), origin),
            "WINDOW": windows.part(name, layer.window, outside=outside, groups=layer.input.shape[0], exponent=exponent),
            "TERMS": Table(f"{name}_terms", terms, "float32((x - zx) * sx), in units of the last place of sx"),
            "ROWS": Table(f"{name}_rows", rows.astype(np.uint32), "of the thresholds, by position"),
        }
        return with_head(layer, parts)
