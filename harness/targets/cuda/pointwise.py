"""Functions of values at one place in CUDA: the statements of definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.operators.elements import Elements, tables
from harness.operators.pointwise import Pointwise
from harness.operators.resize_linear import ResizeLinear
from harness.targets.c import expression
from harness.targets.c.loops import Sizes
from harness.targets.c.pointwise import reads
from harness.targets.cuda import broadcast
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table


class FunctionLowering(VectorLowering[Elements | Pointwise]):
    """The statements of a definition for the values that an output reads.

    An activation as large as the output is read at its place, so that the output may be written over it.
    """

    operator = (Elements, Pointwise)
    excluded = (ResizeLinear,)
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
        return _statements(layer, broadcast.values(layer.output.shape, arrays, shapes))


def _statements(layer: Elements | Pointwise, values: Sequence[str]) -> str:
    """Return the statements for the texts of the operands."""
    dtype, names = layer.input.dtype, [operand.name for operand in layer.operands]
    reads = [f"const {expression.TYPES[dtype.name]} {name} = {expression.loaded(value, dtype)};"
             for name, value in zip(names, values, strict=True)]  # fmt: skip
    lines, result = expression.statements(layer.definition, {name: name for name in names})
    return "\n".join([*reads, *lines, f"return {expression.stored(result, layer.dtype)};"])


class ResizeLinearLowering(VectorLowering[ResizeLinear]):
    """The definition for the four values of an output."""

    operator = ResizeLinear

    def tables(self, layer: ResizeLinear) -> tuple[Table, ...]:
        """Return places and factors."""
        constants: Any = layer.constants()
        return tables_of(layer, constants)

    def value(self, layer: ResizeLinear) -> str:
        """Return the statements."""
        _, height, width = layer.output.shape
        places = f"const unsigned i0 = n / {height * width}, i1 = n / {width} % {height}, i2 = n % {width};"
        return f"{places}\n{_statements(layer, reads(layer, 'x_0', 'unsigned', Sizes()))}"
