"""Softmax of float32 in MLIR: the largest value, exponentials of differences, their sum in order, and quotients."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.exact.functions import exponential
from harness.operators.softmax import Softmax
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.function import operations
from harness.targets.iree.lowering import IreeLowering, chosen, ends


class SoftmaxLowering(IreeLowering[Softmax]):
    """Four loops over rows (rows, length, inner)."""

    operator = Softmax

    def emit(self, layer: Softmax, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        [x] = inputs
        outer = x.size // (layer.length * layer.inner)
        rows = function.reshape(x, (outer, layer.length, layer.inner))
        of_rows, column, of_row = (outer, layer.inner), "d0, d2, d1", "d0, d2"

        def largest(block: Block, value: Scalar, found: Scalar) -> Scalar:
            return chosen(block, value, found, x.dtype, largest=True)

        def power(block: Block, value: Scalar, most: Scalar, _: Scalar) -> Scalar:
            difference = block("arith.subf", value, most, name="difference")
            return operations(block, exponential.root, {exponential.argument.name: difference})

        def add(block: Block, value: Scalar, found: Scalar) -> Scalar:
            return block("arith.addf", found, value, name="sum")

        def divide(block: Block, value: Scalar, total: Scalar, _: Scalar) -> Scalar:
            return block("arith.divf", value, total, name="y")

        highest = function.loops(function.filled(ends(x.dtype)[0], of_rows, x.dtype), [(rows, column)], largest, 1)
        empty = function.empty(rows.shape, x.dtype)
        powers = function.loops(empty, [rows, (highest, of_row)], power, products=True)
        sums = function.loops(function.filled(0, of_rows, x.dtype), [(powers, column)], add, 1)
        made = function.loops(empty, [powers, (sums, of_row)], divide)
        return function.reshape(made, x.shape)
