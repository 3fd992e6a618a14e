"""Sums of products of codes in MLIR: int32 from the bias on, then float32(acc) * m and one rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from harness.operators.base import Layer
from harness.operators.contraction import Contraction
from harness.operators.obligations import StageKind
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_conv import QLinearConv
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.operators.qlinear_mat_mul import QLinearMatMul
from harness.targets.iree.builder import Block, Body, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, Part, centred, quantised
from harness.targets.iree.staged import computed
from harness.targets.iree.windows import convolved, dense, padded

C = TypeVar("C", bound=Contraction)


class ContractionLowering(IreeLowering[C]):
    """Weights, zero points, bias and multipliers are those of the layer; the image is padded with the zero point."""

    operator: ClassVar[type[Layer] | tuple[type[Layer], ...]] = (
        QGemm,
        QLinearConv,
        QLinearGlobalAveragePool,
        QLinearMatMul,
    )

    def emit(self, layer: C, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the sums and their rounding."""
        sums = self.sums(layer, function, inputs[0], function.constant("bias", layer.bias))
        return self.finished(layer, function, sums)

    def parts(self, layer: C) -> tuple[Part, ...]:
        """Return the sums, and their rounding."""
        return (
            Part(StageKind.ACCUMULATE, lambda function, inputs: self.accumulated(layer, function, inputs[0])),
            Part(StageKind.FINISH, lambda function, inputs: self.finished(layer, function, inputs[0])),
        )

    def accumulated(self, layer: C, function: Function, x: Value) -> Value:
        """Add the sums with the bias last: the same int32, and IREE would leave sums from it on in its place."""
        sums = self.sums(layer, function, x, function.filled(0, layer.bias.shape, layer.bias.dtype))
        bias = function.constant("bias", layer.bias)
        return function.loops(
            function.empty(sums.shape, sums.dtype),
            [sums, (bias, "d1")],
            lambda block, acc, b, _: block("arith.addi", acc, b),
        )

    def finished(self, layer: C, function: Function, sums: Value) -> Value:
        """Add the rounding."""
        multiplier = function.constant("multiplier", layer.multiplier)

        def body(block: Block, acc: Scalar, m: Scalar, _: Scalar) -> Scalar:
            number = block("arith.sitofp", acc, to="f32", name="number")
            if layer.scales.y is None:
                return block.product(number, m)
            return quantised(block, block("arith.mulf", number, m), layer.y_zero_point, layer.dtype)

        init = function.empty(sums.shape, layer.dtype)
        result = function.loops(init, [sums, (multiplier, "d1")], body, products=layer.scales.y is None)
        return function.reshape(result, (function.vectors, *layer.output.shape))

    def sums(self, layer: C, function: Function, x: Value, bias: Value) -> Value:
        """Add the accumulators, int32, whose second axis is that of the channels; terms are the innermost loops."""
        if isinstance(layer, QLinearGlobalAveragePool):  # no bias
            return computed(function, [layer.summed()], [x], layer.numbers())
        others, body = product(layer, function, x)
        if isinstance(layer, QLinearConv):
            images = padded(function, x, layer.window, layer.a_zero_point)
            return convolved(layer, function, images, layer.window, bias, body, others)
        return dense(layer, function, x, bias, body, others)


def product(layer: Contraction, function: Function, x: Value) -> tuple[tuple[Value, ...], Body]:
    """Return the constants of `body` that are not weights, and the body of the sums.

    acc + (a - a_zero_point) * (weight - weights_zero_point), all of it int32.
    """
    zero_points = layer.weights_zero_point
    same = bool((zero_points == zero_points[0]).all())
    others = () if same else (function.constant("weights_zero_point", zero_points),)

    def body(block: Block, a: Scalar, weight: Scalar, *rest: Scalar) -> Scalar:
        *of_column, acc = rest
        code = centred(block, a, x.dtype, layer.a_zero_point)
        zero_point = of_column[0] if of_column else block.number(zero_points[0], "i32", name="zero_point")
        factor = block("arith.subi", block.wide(weight, layer.weights.dtype), zero_point, name="weight")
        return block("arith.addi", acc, block("arith.muli", code, factor, name="product"), name="sum")

    return others, body
