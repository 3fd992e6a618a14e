"""QLinearAdd in the fabric: two streams join at a table of all pairs of codes."""

from __future__ import annotations

from harness.operators.qlinear_add import QLinearAdd
from harness.targets.vitis.code_pairs import CodePairsLowering


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """See CodePairsLowering."""

    operator = QLinearAdd
