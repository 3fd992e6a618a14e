"""Operators that move values in MLIR: another shape, blocks side by side, or a loop with a table of places."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.codes import Affine
from harness.operators.concat import Concat
from harness.operators.move import Move
from harness.operators.qlinear_concat import QLinearConcat
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, centred, quantised


class MoveLowering(IreeLowering[Move]):
    """Several inputs are those of Concat."""

    operator = Move

    def emit(self, layer: Move, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        shape = (function.vectors, *layer.output.shape)
        if layer.is_unchanged:
            return function.reshape(inputs[0], shape)
        if isinstance(layer, Concat):
            rows = function.vectors * layer.blocks
            blocks = [function.reshape(x, (rows, x.size // rows)) for x in inputs]
            return function.reshape(function.joined(blocks, 1), shape)
        filler = 0 if layer.order.filler is None else layer.order.filler
        return function.gathered(inputs[0], layer.order.places, filler)


class QLinearConcatLowering(IreeLowering[QLinearConcat]):
    """One product, one quotient and one rounding for each value."""

    operator = QLinearConcat

    def emit(self, layer: QLinearConcat, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        pairs = zip(inputs, layer.x, strict=True)
        return function.joined([self._requantised(layer, function, x, of_x) for x, of_x in pairs], 1)

    @staticmethod
    def _requantised(layer: QLinearConcat, function: Function, x: Value, of_x: Affine) -> Value:
        def body(block: Block, code: Scalar) -> Scalar:
            difference = centred(block, code, x.dtype, of_x.zero_point)
            number = block("arith.sitofp", difference, to="f32", name="number")
            real = block("arith.mulf", number, block.number(of_x.scale, name="scale"), name="real")
            v = block("arith.divf", real, block.number(layer.y.scale, name="scale"))
            return quantised(block, v, layer.y.zero_point, layer.dtype)

        return function.elementwise(layer.dtype, x.shape, [x], body)
