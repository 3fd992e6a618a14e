"""Operators of any number of operands in C: loops over the axes of the output, in all variants with loops."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

import numpy as np

from harness.operators.extremum import Extremum
from harness.operators.fold import Fold
from harness.operators.sum import Mean, Sum
from harness.targets.c import broadcast, code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal

F = TypeVar("F", bound=Fold)


class FoldLowering(CLowering[F]):
    """The operands are combined from left to right."""

    @abstractmethod
    def combined(self, layer: F, values: Sequence[str]) -> str:
        """Return the C expression for the operands of one value."""

    def plain(self, layer: F, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the axes of the output."""
        names, at = [], 0
        sources_left = (f"in_{number}" for number in range(len(sources)))
        for term in layer.terms:
            names.append(next(sources_left) if term is None else _at(layer, at))
            at += 0 if term is None else term.size
        operands = list(zip(names, layer.shapes, strict=True))
        body = broadcast.loops(layer.output.shape, operands, lambda values: self.combined(layer, values))
        return code.of_inputs(layer, sources, body, _tables(layer))

    def unrolled(self, layer: F, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the constants as literals."""
        left = iter(enumerate(layer.inputs))
        texts = []
        for term in layer.terms:
            if term is None:
                number, tensor = next(left)
                texts.append([f"in_{number}[{n}]" for n in range(tensor.size)])
            else:
                texts.append([literal(value) for value in term.reshape(-1)])
        operands = list(zip(texts, layer.shapes, strict=True))
        values = broadcast.elements(layer.output.shape, operands, lambda values: self.combined(layer, values))
        return code.of_inputs(layer, sources, code.assigned(values))


def _at(layer: Fold, place: int) -> str:
    """Return the array of the constant operand that begins at this place of the table."""
    return f"({layer.name}_terms + {place})" if place else f"{layer.name}_terms"


def _tables(layer: Fold) -> tuple[Table, ...]:
    """Return the table of the constants, if there are any."""
    terms = layer.facts().get("terms")
    return () if terms is None else (Table(f"{layer.name}_terms", np.asarray(terms)),)


class SumLowering(FoldLowering[Sum]):
    """One addition per operand after the first, from left to right."""

    operator = (Sum, Mean)

    def combined(self, layer: Sum, values: Sequence[str]) -> str:
        """Return the sum, of Mean divided; in C, + is evaluated from left to right."""
        total = " + ".join(values)
        return f"({total}) / {literal(layer.divisor)}" if isinstance(layer, Mean) else total


class ExtremumLowering(FoldLowering[Extremum]):
    """One comparison per operand after the first, from left to right (kernels/c/extremum.h)."""

    operator = Extremum
    headers = ("extremum.h",)

    def combined(self, layer: Extremum, values: Sequence[str]) -> str:
        """Return the chain of comparisons."""
        function = "larger_float32" if layer.largest else "smaller_float32"
        return reduce(lambda first, second: f"{function}({first}, {second})", values)
