"""Tanh in C: the operations of kernels/c/elementary.h, in all variants."""

from __future__ import annotations

from harness.operators.tanh import Tanh
from harness.targets.c.function import FunctionLowering


class TanhLowering(FunctionLowering[Tanh]):
    """See `FunctionLowering`."""

    operator = Tanh
    headers = ("tanh.h",)
    function = "tanh"
    variables = {"bound": "EXP_BOUND"}  # noqa: RUF012
