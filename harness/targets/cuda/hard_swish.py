"""HardSwish in CUDA."""

from __future__ import annotations

from harness.operators.hard_swish import HardSwish
from harness.targets.cuda.function import FunctionLowering


class HardSwishLowering(FunctionLowering[HardSwish]):
    """A HardSigmoid and one multiplication per value."""

    operator = HardSwish
    operation = "hard_swish"
