"""QLinearAdd in CUDA: two fused multiply-adds per value, as its formula has them."""

from __future__ import annotations

from harness.operators.qlinear_add import QLinearAdd
from harness.targets.cuda.code_pairs import CodePairsLowering


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """The only function of codes with a fused multiply-add."""

    operator = QLinearAdd
    fuses_multiply_add = True
    function_of_pair = "add_codes"
