"""QLinearLeakyRelu in CUDA."""

from __future__ import annotations

from harness.operators.qlinear_leaky_relu import QLinearLeakyRelu
from harness.targets.cuda.lookup import LookupLowering


class QLinearLeakyReluLowering(LookupLowering[QLinearLeakyRelu]):
    """A table of 256 codes."""

    operator = QLinearLeakyRelu
