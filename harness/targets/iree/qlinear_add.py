"""QLinearAdd in MLIR."""

from __future__ import annotations

from harness.operators.qlinear_add import QLinearAdd
from harness.targets.iree.code_pairs import CodePairsLowering


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """An access to the table for each value."""

    operator = QLinearAdd
