"""Functions of codes in MLIR: tables of all codes or pairs, and roundings from and to float32."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.code_pairs import CodePairs
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.lookup import Lookup
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering, centred, quantised


class LookupLowering(IreeLowering[Lookup]):
    """The table is that of the specification."""

    operator = Lookup

    def emit(self, layer: Lookup, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the accesses."""
        [x] = inputs
        table = function.constant("table", layer.table())
        return function.elementwise(layer.dtype, x.shape, [x], lambda block, code: block.entry(table, code, x.dtype))


CODES = 256


class CodePairsLowering(IreeLowering[CodePairs]):
    """The table is that of the specification: the formula of QLinearAdd has fused operations, which a CPU may lack."""

    operator = CodePairs

    def emit(self, layer: CodePairs, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the accesses, by the code of the first activation, then by the other code."""
        table = function.constant("table", layer.by_activation(layer.table()).reshape(-1))
        operands = list(inputs)
        if layer.operand is not None:
            operands.append(function.constant("operand", layer.operand.reshape(layer.output.shape)))

        def body(block: Block, first: Scalar, second: Scalar) -> Scalar:
            row, column = (block.place(code, layer.dtype) for code in (first, second))
            start = block("arith.muli", row, block.number(CODES, "i32", name="codes"), name="row")
            return block.element(table, block("arith.addi", start, column, name="place"))

        return function.elementwise(layer.dtype, (function.vectors, *layer.output.shape), operands, body)


class QuantizeLinearLowering(IreeLowering[QuantizeLinear]):
    """One value at a time."""

    operator = QuantizeLinear

    def emit(self, layer: QuantizeLinear, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs

        def body(block: Block, value: Scalar) -> Scalar:
            v = block("arith.divf", value, block.number(layer.scale, name="scale"))
            return quantised(block, v, layer.zero_point, layer.dtype)

        return function.elementwise(layer.dtype, x.shape, [x], body)


class DequantizeLinearLowering(IreeLowering[DequantizeLinear]):
    """One value at a time."""

    operator = DequantizeLinear

    def emit(self, layer: DequantizeLinear, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs

        def body(block: Block, code: Scalar) -> Scalar:
            difference = centred(block, code, x.dtype, layer.zero_point)
            number = block("arith.sitofp", difference, to="f32", name="number")
            return block.product(number, block.number(layer.scale, name="scale"), name="y")

        return function.elementwise(layer.dtype, x.shape, [x], body, products=True)
