"""MatMul in MLIR: Gemm of each row."""

from __future__ import annotations

from harness.operators.mat_mul import MatMul
from harness.targets.iree.gemm import GemmLowering


class MatMulLowering(GemmLowering):
    """The same loops."""

    operator = MatMul
