"""QLinearLeakyRelu in MLIR."""

from __future__ import annotations

from harness.operators.qlinear_leaky_relu import QLinearLeakyRelu
from harness.targets.iree.lookup import LookupLowering


class QLinearLeakyReluLowering(LookupLowering[QLinearLeakyRelu]):
    """An access to the table for each value."""

    operator = QLinearLeakyRelu
