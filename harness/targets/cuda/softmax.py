"""Softmax in CUDA."""

from __future__ import annotations

from harness.operators.softmax import Softmax
from harness.targets.cuda.code import VectorLowering


class SoftmaxLowering(VectorLowering[Softmax]):
    """One thread adds the exponentials of a whole row for each of its values."""

    operator = Softmax

    def value(self, layer: Softmax) -> str:
        """Call kernels/cuda/floats.cuh."""
        return f"return softmax<{layer.length}, {layer.inner}>(x_0, n);"
