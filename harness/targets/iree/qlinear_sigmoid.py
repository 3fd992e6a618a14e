"""QLinearSigmoid in MLIR."""

from __future__ import annotations

from harness.operators.qlinear_sigmoid import QLinearSigmoid
from harness.targets.iree.lookup import LookupLowering


class QLinearSigmoidLowering(LookupLowering[QLinearSigmoid]):
    """An access to the table for each value."""

    operator = QLinearSigmoid
