"""Functions of two codes in CUDA: QLinearAdd and QLinearMul; a term is an activation or a constant table of codes."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np

from harness.operators.code_pairs import CodePairs
from harness.targets.cuda.code import CudaLowering, FusedTask, c_type, in_tile_order, of_one_value, of_words, word_of
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
        terms = super().operands(task)
        layer: Any = task.layer
        return terms if layer.operand is None else _ordered(layer, terms, f"{_operand(layer)}[at.n]")

    def fused_tables(self, task: FusedTask) -> tuple[Table, ...]:
        """Return the constants, a constant term in the words of a tile."""
        layer = task.layer
        if layer.operand is None:
            return self._numbers(layer)
        words = in_tile_order(layer.operand, task.positions)
        return (
            Table(_operand(layer), words, "four neighbouring channels to a word", computed=True),
            *self._numbers(layer),
        )

    def fused_function(self, task: FusedTask) -> str:
        """Compute the values of a word."""
        return of_words(task.layer, ("a", "b"), self._call(task.layer))

    def steps(self, task: FusedTask) -> list[str]:
        """Compute words of the output's tile."""
        layer = task.layer
        terms = [word_of(task, number) for number in range(len(task.sources))]
        if layer.operand is not None:
            terms = [_ordered(layer, terms[0], f"((const uint32_t *){_operand(layer)})[w]")]
        return self.fill_words(task, ", ".join(terms))

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


def _operand(layer: CodePairs) -> str:
    return f"{layer.name}_{layer.operand_role}"


def _ordered(layer: CodePairs, activation: str, constant: str) -> str:
    return f"{constant}, {activation}" if layer.constant_first else f"{activation}, {constant}"
