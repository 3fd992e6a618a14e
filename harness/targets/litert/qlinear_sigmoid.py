"""QLinearSigmoid in TFLite: a table."""

from __future__ import annotations

from harness.operators.qlinear_sigmoid import QLinearSigmoid
from harness.targets.litert.lookup import LookupLowering


class QLinearSigmoidLowering(LookupLowering[QLinearSigmoid]):
    """See `LookupLowering`."""

    operator = QLinearSigmoid
