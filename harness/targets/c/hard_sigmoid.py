"""HardSigmoid in C: a product, a sum and two maxima, in all variants."""

from __future__ import annotations

from harness.operators.hard_sigmoid import HardSigmoid
from harness.targets.c.function import FunctionLowering


class HardSigmoidLowering(FunctionLowering[HardSigmoid]):
    """See `FunctionLowering`."""

    operator = HardSigmoid
    headers = ("hard_sigmoid.h",)
    function = "hard_sigmoid"
    variables = {"zero": "0.0f", "one": "1.0f"}  # noqa: RUF012
