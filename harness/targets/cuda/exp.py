"""Exp in CUDA."""

from __future__ import annotations

from harness.operators.exp import Exp
from harness.targets.cuda.function import FunctionLowering


class ExpLowering(FunctionLowering[Exp]):
    """The operations of kernels/c/elementary.h."""

    operator = Exp
    operation, more = "exp_of", ("EXP_BOUND",)
