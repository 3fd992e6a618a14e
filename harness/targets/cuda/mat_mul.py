"""MatMul in CUDA: Gemm with a bias of 0."""

from __future__ import annotations

from harness.operators.mat_mul import MatMul
from harness.targets.cuda.gemm import GemmLowering


class MatMulLowering(GemmLowering):
    """The code of Gemm."""

    operator = MatMul
