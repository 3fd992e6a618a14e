"""Functions of two codes in CUDA: QLinearAdd and QLinearMul; a term is an activation or a constant table of codes."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np

from harness.operators.broadcast import axes as axes_of
from harness.operators.code_pairs import CodePairs
from harness.operators.qlinear_add import QLinearAdd
from harness.operators.qlinear_mul import QLinearMul
from harness.targets.cuda.broadcast import place
from harness.targets.cuda.code import CudaLowering, FusedTask, c_type, of_one_value, of_words, positions_of, values_of
from harness.targets.generated import Table, TaskView

P = TypeVar("P", bound=CodePairs)


class CodePairsLowering(CudaLowering[P]):
    """A function of rounding.cuh for each pair; a fused kernel computes the four of a word."""

    in_place = True
    function_of_pair: ClassVar[str]
    """The function of rounding.cuh, whose arguments are both codes and the numbers of the layer."""

    def tables(self, layer: P) -> tuple[Table, ...]:
        """Return the constant term, if there is one, and the numbers."""
        operand = () if layer.operand is None else (Table(_operand(layer), layer.operand, computed=True),)
        return (*operand, *self._numbers(layer))

    def function(self, layer: P) -> str:
        """Compute one value."""
        kind = c_type(layer.dtype)
        return of_one_value(layer, f"{kind} a, {kind} b", self._call(layer))

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
        return of_words(layer, ("a", "b"), self._call(layer))

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

    def _call(self, layer: P) -> str:
        numbers = ", ".join(f"{layer.name}_{role}[0]" for role in layer.numbers())
        return f"{self.function_of_pair}<{c_type(layer.dtype)}>(a, b, {numbers})"

    @staticmethod
    def _numbers(layer: P) -> tuple[Table, ...]:
        return tuple(
            Table(
                f"{layer.name}_{role}",
                np.atleast_1d(np.int32(number) if isinstance(number, int) else number),
                computed=True,
            )
            for role, number in layer.numbers().items()
        )


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
    function_of_pair = "add_codes"


class QLinearMulLowering(CodePairsLowering[QLinearMul]):
    """An integer product, a multiplication and an addition per value."""

    operator = QLinearMul
    function_of_pair = "multiply_codes"
