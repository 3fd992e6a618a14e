"""Sigmoid in C: the operations of kernels/c/elementary.h, in all variants."""

from __future__ import annotations

from harness.operators.sigmoid import Sigmoid
from harness.targets.c.function import FunctionLowering


class SigmoidLowering(FunctionLowering[Sigmoid]):
    """See `FunctionLowering`."""

    operator = Sigmoid
    headers = ("sigmoid.h",)
    function = "logistic"
    variables = {"bound": "EXP_BOUND"}  # noqa: RUF012
