"""QLinearSoftmax in MLIR: entries of a table, their float32 sum in order, a product and a quotient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.qlinear_softmax import QLinearSoftmax
from harness.operators.tensor import FLOAT32
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, chosen, ends, quantised


class QLinearSoftmaxLowering(IreeLowering[QLinearSoftmax]):
    """Three loops over the values of each row."""

    operator = QLinearSoftmax

    def emit(self, layer: QLinearSoftmax, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the loops."""
        count = layer.size // layer.length
        x = function.reshape(inputs[0], (function.vectors, count, layer.length))
        table = function.constant("table", layer.table())
        least, rows = ends(x.dtype)[0], (function.vectors, count)

        def largest(block: Block, value: Scalar, found: Scalar) -> Scalar:
            return chosen(block, value, found, x.dtype, largest=True)

        def power(block: Block, code: Scalar, most: Scalar, _: Scalar) -> Scalar:
            wide, highest = (block.wide(each, x.dtype) for each in (code, most))
            below = block("arith.subi", wide, highest, name="below")
            last = block.number(len(layer.table()) - 1, "i32", name="last")
            return block.element(table, block("arith.addi", below, last, name="place"))

        def add(block: Block, value: Scalar, found: Scalar) -> Scalar:
            return block("arith.addf", found, value, name="sum")

        def finish(block: Block, value: Scalar, total: Scalar, _: Scalar) -> Scalar:
            scaled = block("arith.mulf", value, block.number(layer.inverse, name="inverse"), name="product")
            return quantised(block, block("arith.divf", scaled, total), layer.y.zero_point, layer.dtype)

        highest = function.loops(function.filled(least, rows, x.dtype), [(x, "d0, d1, d2")], largest, 1)
        powers = function.loops(function.empty(x.shape, FLOAT32), [x, (highest, "d0, d1")], power)
        sums = function.loops(function.filled(0, rows, np.dtype(np.float32)), [(powers, "d0, d1, d2")], add, 1)
        result = function.loops(function.empty(x.shape, layer.dtype), [powers, (sums, "d0, d1")], finish)
        return function.reshape(result, (function.vectors, *layer.output.shape))
