"""QuantizeLinear on a core: thresholds, as the core has no division."""

from __future__ import annotations

import numpy as np

from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.generated import Table
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.constants import Constants, with_head


class QuantizeLinearLowering(TiovxLowering[QuantizeLinear]):
    """Compare each value with the thresholds."""

    operator = QuantizeLinear
    kernel = "KERNEL_QUANTIZE_LINEAR"

    def constants(self, layer: QuantizeLinear) -> Constants:
        """Return the thresholds of all values."""
        steps = layer.thresholds().astype(np.int32)
        origin = "the least float32, as ordered numbers, that become each code above the lowest"
        table = Table(f"{layer.name}_thresholds", steps[None], origin)
        return with_head(layer, {"TABLE": table})
