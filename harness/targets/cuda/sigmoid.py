"""Sigmoid in CUDA."""

from __future__ import annotations

from harness.operators.sigmoid import Sigmoid
from harness.targets.cuda.function import FunctionLowering


class SigmoidLowering(FunctionLowering[Sigmoid]):
    """The operations of kernels/c/elementary.h."""

    operator = Sigmoid
    operation, more = "logistic_of", ("EXP_BOUND",)
