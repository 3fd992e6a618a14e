"""Resize in MLIR: nearest values, or values between columns, then between rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Array
from harness.operators.resize_linear import ResizeLinear
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering


class ResizeLinearLowering(IreeLowering[ResizeLinear]):
    """Two loops, each of two products and their sum."""

    operator = ResizeLinear

    def emit(self, layer: ResizeLinear, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        [x] = inputs
        channels, height, width = layer.input.shape
        rows, columns = np.arange(channels * height, dtype=np.int32)[:, None] * width, layer.columns
        sides = self._between(function, x, [rows + each for each in columns], layer.right)
        size = columns.shape[1]
        places = np.arange(channels, dtype=np.int32)[:, None, None] * (height * size) + np.arange(size)
        found = [places + each[:, None] * size for each in layer.rows]
        return self._between(function, sides, found, layer.down[..., None])

    @staticmethod
    def _between(function: Function, x: Value, places: Sequence[Array], factors: Array) -> Value:
        values = [function.gathered(x, each) for each in places]
        tables = [function.constant("factor", np.ascontiguousarray(each)) for each in factors]

        def body(block: Block, first: Scalar, second: Scalar, of_first: Scalar, of_second: Scalar) -> Scalar:
            products = block.product(first, of_first), block.product(second, of_second)
            return block("arith.addf", *products, name="y")

        return function.elementwise(x.dtype, values[0].shape, [*values, *tables], body, products=True)
