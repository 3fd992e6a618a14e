"""Elu in CUDA."""

from __future__ import annotations

from harness.operators.elu import Elu
from harness.targets.cuda.function import FunctionLowering


class EluLowering(FunctionLowering[Elu]):
    """The operations of kernels/c/elementary.h."""

    operator = Elu
    operation = "elu"
