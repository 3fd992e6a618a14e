"""Operators of any number of operands in CUDA: Sum, Max and Min."""

from __future__ import annotations

from abc import abstractmethod
from functools import reduce
from typing import TypeVar

from harness.operators.fold import Fold
from harness.targets.cuda import broadcast
from harness.targets.cuda.code import VectorLowering, tables_of
from harness.targets.generated import Table

F = TypeVar("F", bound=Fold)


class FoldLowering(VectorLowering[F]):
    """The operands are combined from left to right by a device function of two values."""

    @abstractmethod
    def operation(self, layer: F) -> str:
        """Return the name of the function."""

    def tables(self, layer: F) -> tuple[Table, ...]:
        """Return the constant operands, one after the other, if there are any."""
        return tables_of(layer, layer.facts())

    def value(self, layer: F) -> str:
        """Combine a value of each operand."""
        arrays, inputs, begin = [], 0, 0
        for term in layer.terms:
            arrays.append(f"x_{inputs}" if term is None else f"({layer.name}_terms + {begin})")
            inputs, begin = (inputs + 1, begin) if term is None else (inputs, begin + term.size)
        values = broadcast.values(layer.output.shape, arrays, layer.shapes)
        return f"return {reduce(lambda first, second: f'{self.operation(layer)}({first}, {second})', values)};"
