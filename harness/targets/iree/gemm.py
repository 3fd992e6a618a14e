"""Gemm in MLIR: one row of float32 times a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.gemm import Gemm
from harness.operators.mat_mul import MatMul
from harness.targets.iree.builder import Function, Value
from harness.targets.iree.dense import dense
from harness.targets.iree.float_sums import bias_of, multiply_add
from harness.targets.iree.lowering import IreeLowering


class GemmLowering(IreeLowering[Gemm]):
    """The inputs k are the innermost loop."""

    operator = (Gemm, MatMul)

    def emit(self, layer: Gemm, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        made = dense(layer, function, inputs[0], bias_of(layer, function), multiply_add, products=True)
        return function.reshape(made, (function.vectors, *layer.output.shape))
