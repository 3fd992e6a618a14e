"""QLinearAdd on a core."""

from __future__ import annotations

from harness.operators.qlinear_add import QLinearAdd
from harness.targets.tiovx.code_pairs import CodePairsLowering


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """A table of the outputs for all pairs of codes."""

    operator = QLinearAdd
