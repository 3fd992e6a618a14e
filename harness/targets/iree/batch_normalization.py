"""BatchNormalization in MLIR: ((x - mean) / deviation) * scale + offset."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.batch_normalization import ROLES, BatchNormalization
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering


class BatchNormalizationLowering(IreeLowering[BatchNormalization]):
    """One value at a time; the second axis is that of the channels."""

    operator = BatchNormalization

    def emit(self, layer: BatchNormalization, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs

        def body(block: Block, *values: Scalar) -> Scalar:
            value, mean, deviation, scale, offset, _ = values
            v = block("arith.divf", block("arith.subf", value, mean), deviation)
            return block("arith.addf", block.product(v, scale), offset, name="y")

        tables = [(function.constant(name, getattr(layer, name)), "d1") for name in ROLES]
        return function.loops(function.empty(x.shape, layer.dtype), [x, *tables], body, products=True)
