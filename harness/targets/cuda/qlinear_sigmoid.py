"""QLinearSigmoid in CUDA."""

from __future__ import annotations

from harness.operators.qlinear_sigmoid import QLinearSigmoid
from harness.targets.cuda.lookup import LookupLowering


class QLinearSigmoidLowering(LookupLowering[QLinearSigmoid]):
    """A table of 256 codes."""

    operator = QLinearSigmoid
