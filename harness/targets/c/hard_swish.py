"""HardSwish in C: a product, a sum and two maxima, in all variants."""

from __future__ import annotations

from harness.operators.hard_swish import HardSwish
from harness.targets.c.function import FunctionLowering


class HardSwishLowering(FunctionLowering[HardSwish]):
    """See `FunctionLowering`."""

    operator = HardSwish
    headers = ("hard_swish.h",)
    function = "hard_swish"
    variables = {"zero": "0.0f", "one": "1.0f"}  # noqa: RUF012
