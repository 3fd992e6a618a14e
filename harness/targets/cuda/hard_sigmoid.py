"""HardSigmoid in CUDA."""

from __future__ import annotations

from harness.operators.hard_sigmoid import HardSigmoid
from harness.targets.cuda.function import FunctionLowering


class HardSigmoidLowering(FunctionLowering[HardSigmoid]):
    """One multiplication, one addition and two selections per value."""

    operator = HardSigmoid
    operation = "hard_sigmoid"
