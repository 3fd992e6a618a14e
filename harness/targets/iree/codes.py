"""Functions of codes in MLIR: tables of all codes or pairs."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.code_pairs import CodePairs
from harness.operators.lookup import Lookup
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering


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
