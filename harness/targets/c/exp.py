"""Exp in C: the operations of kernels/c/elementary.h, in all variants."""

from __future__ import annotations

from harness.operators.exp import Exp
from harness.targets.c.function import FunctionLowering


class ExpLowering(FunctionLowering[Exp]):
    """See `FunctionLowering`."""

    operator = Exp
    headers = ("exp.h",)
    function = "exp"
    variables = {"bound": "EXP_BOUND"}  # noqa: RUF012
