"""Functions of codes in CUDA: the statements of definitions of two codes, and tables of one."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from harness.operators.broadcast import axes as axes_of
from harness.operators.code_pairs import CodePairs
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.lookup import Lookup
from harness.operators.qlinear_add import QLinearAdd
from harness.operators.qlinear_mul import QLinearMul
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.c import expression
from harness.targets.cuda.broadcast import place
from harness.targets.cuda.code import (
    CudaLowering,
    FusedTask,
    affine_tables,
    c_type,
    of_one_value,
    of_words,
    positions_of,
    tables_of,
    values_of,
)
from harness.targets.generated import Table, TaskView

P = TypeVar("P", bound=CodePairs)
OPERATIONS = {
    "number": "__int2float_rn({0})",
    "fused": "multiply_add({0}, {1}, {2})",
    "code": "round_saturated<{type}>({0}, {1})",
}
"""The texts of operations by intrinsics and rounding.cuh."""


class CodePairsLowering(CudaLowering[P]):
    """The statements of a definition for each pair; a fused kernel computes the four of a word."""

    in_place = True

    def tables(self, layer: P) -> tuple[Table, ...]:
        """Return the constant term, if there is one, and the numbers."""
        operand = () if layer.operand is None else (Table(_operand(layer), layer.operand, computed=True),)
        return (*operand, *tables_of(layer, layer.numbers()))

    def function(self, layer: P) -> str:
        """Compute one value."""
        kind = c_type(layer.dtype)
        return _of_pair(layer) + of_one_value(layer, f"{kind} a, {kind} b", f"{layer.name}_of_pair(a, b)")

    def operands(self, task: TaskView) -> str:
        """Return both terms."""
        layer: Any = task.layer
        if layer.broadcasts:
            places = enumerate(_places(layer, "at.n"))
            return ", ".join(f"x_{number}[at.v * pitch_{number} + {place}]" for number, place in places)
        terms = super().operands(task)
        return terms if layer.operand is None else _ordered(layer, terms, f"{_operand(layer)}[at.n]")

    def fused_function(self, layer: P) -> str:
        """Compute the values of a word, or one value with broadcasting."""
        if layer.broadcasts:
            return self.function(layer)
        return _of_pair(layer) + of_words(layer, ("a", "b"), f"{layer.name}_of_pair(a, b)")

    def steps(self, task: FusedTask) -> list[str]:
        """Compute words of the output's tile."""
        layer: Any = task.layer
        if layer.broadcasts:
            return super().steps(task)
        terms = ", ".join(f"{operand}[w * STRIDE + v]" for operand in task.operands)
        if layer.operand is not None:
            kinds = f"{c_type(layer.dtype)}, {layer.size}, {positions_of(layer.output)}"
            terms = _ordered(layer, terms, f"word<{kinds}>(w, [&](unsigned n) {{ return {_operand(layer)}[n]; }})")
        return self.fill_words(task, terms)

    def fused_operands(self, task: FusedTask) -> tuple[str, str]:
        """Return the values that output n of vector v reads, with broadcasting, and the declaration of n."""
        layer: Any = task.layer
        values = (f"{values_of(task, number)}[{place}]" for number, place in enumerate(_places(layer, "n")))
        return ", ".join(values), "unsigned n"


def _of_pair(layer: CodePairs) -> str:
    """Return the function of a pair of codes."""
    kind = c_type(layer.dtype)
    arguments = {"a": "a", "b": "b", **{name: f"{layer.name}_{name}[0]" for name in layer.numbers()}}
    lines, result = expression.statements(layer.definition, arguments, operations=OPERATIONS)
    body = "".join(f"    {line}\n" for line in lines)
    head = f"__device__ inline {kind} {layer.name}_of_pair({kind} a, {kind} b)"
    return f"{head}\n{{\n{body}    return {result};\n}}\n\n"


def _places(layer: CodePairs, number: str) -> list[str]:
    """Return the place of value `number` of the output in a and b."""
    axes = axes_of(layer.output.shape, layer.shapes)
    return [place([(size, steps[operand]) for size, steps in axes], number) for operand in range(2)]


def _operand(layer: CodePairs) -> str:
    return f"{layer.name}_{layer.operand_role}"


def _ordered(layer: CodePairs, activation: str, constant: str) -> str:
    return f"{constant}, {activation}" if layer.constant_first else f"{activation}, {constant}"


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """The only function of codes with a fused multiply-add."""

    operator = QLinearAdd
    fuses_multiply_add = True


class QLinearMulLowering(CodePairsLowering[QLinearMul]):
    """An integer product, a multiplication and an addition per value."""

    operator = QLinearMul


class LookupLowering(CudaLowering[Lookup]):
    """One access per value; a fused kernel computes the four values of a word."""

    operator = Lookup

    in_place = True

    def tables(self, layer: Lookup) -> tuple[Table, ...]:
        """Return the outputs for all codes."""
        return (
            Table(f"{layer.name}_table", layer.table(), "outputs for all codes, from the lowest on", computed=True),
        )

    def function(self, layer: Lookup) -> str:
        """Look one code up."""
        return of_one_value(layer, f"{c_type(layer.dtype)} a", _entry(layer))

    def fused_function(self, layer: Lookup) -> str:
        """Look the codes of a word up."""
        return of_words(layer, ("a",), _entry(layer))

    def steps(self, task: FusedTask) -> list[str]:
        """Compute words of the output's tile."""
        return self.fill_words(task, f"{task.operands[0]}[w * STRIDE + v]")


class QuantizeLinearLowering(CudaLowering[QuantizeLinear]):
    """One value at a time."""

    operator = QuantizeLinear
    streams = True

    def tables(self, layer: QuantizeLinear) -> tuple[Table, ...]:
        """Return scale and zero point."""
        return affine_tables(layer)

    def function(self, layer: QuantizeLinear) -> str:
        """Quantise one value."""
        result = f"quantize<{c_type(layer.dtype)}>(x, {layer.name}_scale[0], {layer.name}_zero[0])"
        return of_one_value(layer, f"{c_type(layer.input.dtype)} x", result)


class DequantizeLinearLowering(CudaLowering[DequantizeLinear]):
    """One value at a time."""

    operator = DequantizeLinear

    def tables(self, layer: DequantizeLinear) -> tuple[Table, ...]:
        """Return scale and zero point."""
        return affine_tables(layer)

    def function(self, layer: DequantizeLinear) -> str:
        """Dequantise one value."""
        result = f"dequantize(x, {layer.name}_scale[0], {layer.name}_zero[0])"
        return of_one_value(layer, f"{c_type(layer.input.dtype)} x", result)


def _entry(layer: Lookup) -> str:
    return f"{layer.name}_table[a - ({np.iinfo(layer.dtype).min})]"
