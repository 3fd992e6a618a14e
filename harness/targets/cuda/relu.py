"""Relu in CUDA."""

from __future__ import annotations

from harness.operators.relu import Relu
from harness.targets.cuda.function import FunctionLowering


class ReluLowering(FunctionLowering[Relu]):
    """One selection per value, a code or float32."""

    operator = Relu
    operation = "relu"
