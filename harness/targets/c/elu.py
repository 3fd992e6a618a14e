"""Elu in C: the operations of kernels/c/elementary.h, in all variants."""

from __future__ import annotations

from harness.operators.elu import Elu
from harness.targets.c.function import FunctionLowering


class EluLowering(FunctionLowering[Elu]):
    """See `FunctionLowering`."""

    operator = Elu
    headers = ("elu.h",)
    function = "elu"
    variables = {"bound": "EXP_MINUS_ONE_BOUND"}  # noqa: RUF012
