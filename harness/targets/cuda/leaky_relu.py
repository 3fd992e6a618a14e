"""LeakyRelu in CUDA."""

from __future__ import annotations

from harness.operators.leaky_relu import LeakyRelu
from harness.targets.cuda.function import FunctionLowering


class LeakyReluLowering(FunctionLowering[LeakyRelu]):
    """One multiplication and one selection per value."""

    operator = LeakyRelu
    operation = "leaky_relu"
