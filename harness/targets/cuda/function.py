"""Functions of values at one place in CUDA: the statements of definitions."""

from __future__ import annotations

from harness.operators.elements import Elements, tables
from harness.operators.pointwise import Pointwise
from harness.targets.c import expression
from harness.targets.cuda import broadcast
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class FunctionLowering(VectorLowering[Elements | Pointwise]):
    """The statements of a definition for the values that an output reads.

    An activation as large as the output is read at its place, so that the output may be written over it.
    """

    operator = (Elements, Pointwise)
    in_place = True

    def tables(self, layer: Elements | Pointwise) -> tuple[Table, ...]:
        """Return the constants."""
        return tables_of(layer, tables(layer.operands))

    def value(self, layer: Elements | Pointwise) -> str:
        """Return the statements."""
        arrays, number = [], 0
        for operand in layer.operands:
            table = f"{layer.name}_{operand.role}"
            begins = f"({table} + {operand.begin})" if operand.begin else table
            arrays.append(f"x_{number}" if operand.values is None else begins)
            number += operand.values is None
        shapes = [operand.shape for operand in layer.operands]
        values = broadcast.values(layer.output.shape, arrays, shapes)
        dtype, names = layer.input.dtype, [operand.name for operand in layer.operands]
        reads = [f"const {expression.TYPES[dtype.name]} {name} = {expression.loaded(value, dtype)};"
                 for name, value in zip(names, values, strict=True)]  # fmt: skip
        lines, result = expression.statements(layer.definition, {name: name for name in names})
        return "\n".join([*reads, *lines, f"return {expression.stored(result, layer.dtype)};"])
