"""Gemm in CUDA: sums in the order of the formula."""

from __future__ import annotations

from harness.operators.gemm import Gemm
from harness.operators.mat_mul import MatMul
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class GemmLowering(VectorLowering[Gemm]):
    """Weights are stored as in the model: one row an input."""

    operator = (Gemm, MatMul)

    def tables(self, layer: Gemm) -> tuple[Table, ...]:
        """Return weights and bias."""
        return tables_of(layer, {"weights": layer.weights, "bias": layer.bias})

    def value(self, layer: Gemm) -> str:
        """Call kernels/cuda/floats.cuh."""
        depth, width = layer.weights.shape
        return f"return gemm<{depth}, {width}>(x_0, &{layer.name}_weights[0][0], {layer.name}_bias, n);"
