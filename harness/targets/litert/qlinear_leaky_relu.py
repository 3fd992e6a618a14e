"""QLinearLeakyRelu in TFLite: a table."""

from __future__ import annotations

from harness.operators.qlinear_leaky_relu import QLinearLeakyRelu
from harness.targets.litert.lookup import LookupLowering


class QLinearLeakyReluLowering(LookupLowering[QLinearLeakyRelu]):
    """See `LookupLowering`."""

    operator = QLinearLeakyRelu
