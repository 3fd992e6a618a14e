"""Tanh in CUDA."""

from __future__ import annotations

from harness.operators.tanh import Tanh
from harness.targets.cuda.function import FunctionLowering


class TanhLowering(FunctionLowering[Tanh]):
    """The operations of kernels/c/elementary.h."""

    operator = Tanh
    operation, more = "tanh_of", ("EXP_BOUND",)
