"""MatMul of float32 in TFLite: FULLY_CONNECTED."""

from __future__ import annotations

from harness.operators.mat_mul import MatMul
from harness.targets.litert.gemm import GemmLowering


class MatMulLowering(GemmLowering):
    """A Gemm without a bias."""

    operator = MatMul
