"""Max and Min (ONNX), float32: the largest or the smallest of one or more operands, with broadcasting.

y = A, then for each further operand x, y = x if x > y else y (Min: x < y)      the first of equal values stays

Nothing is rounded; the order decides the sign of a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import fold
from harness.operators.base import fields
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Perturbed
from harness.operators.fold import Fold
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment

COMMENT = "ONNX {}: the {} of the operands, of equal ones the first."
MAX, MIN = (
    fold.fragments(f"{name.lower()}_float32", order, COMMENT.format(name, kind))
    for name, order, kind in (("Max", 97, "largest"), ("Min", 98, "smallest"))
)


@dataclass(frozen=True, eq=False)
class Extremum(Fold):
    """The largest (Max) or the smallest (Min) operand; ONNX Runtime may give another sign of zero."""

    ONNX = (("", "Max"), ("", "Min"))
    formula = "y = A, then for each further operand x: y = x if x > y (Min: x < y), else y"
    fragments = (*MAX, *MIN)
    statement = "the operands are compared from left to right, and the first of equal ones stays"

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of fitting shapes, one of them an activation."""
        sources, terms, shape = fold.read(node, "compares")
        bound, negative_zero = max(fold.largest(sources, terms)), any(fold.negative_zeros(sources, terms))
        return cls(**fields(node, sources, shape, FLOAT32, bound, negative_zero=negative_zero), terms=terms)

    @property
    def largest(self) -> bool:
        """True for Max."""
        return self.operator == "Max"

    @property
    def fragment(self) -> Fragment:
        """The operation of the operator."""
        return (MAX if self.largest else MIN)[any(term is not None for term in self.terms)]

    def combine(self, first: Array, second: Array) -> Array:
        """Return the value that is chosen of two."""
        return np.where(second > first if self.largest else second < first, second, first)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return 0: zeros of either sign are right."""
        return np.zeros(output.shape)

    def change(self, at: Perturbed) -> Array:
        """Return the largest error of an operand: an extreme value changes by no more."""
        largest: Array = self.without_constants(at.errors).max(axis=0)
        return largest

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other comparisons, operands that are left out, and other signs of zero."""
        operands, right = self.operands(inputs), "the operands are compared from left to right"
        choose = self.largest

        def other(first: Array, second: Array) -> Array:
            return np.where(second < first if choose else second > first, second, first)

        def last(first: Array, second: Array) -> Array:
            return np.where(second >= first if choose else second <= first, second, first)

        yield FaultModel(f"the {'smallest' if choose else 'largest'} operand is taken", right, reduce(other, operands))
        yield FaultModel("of equal zeros the last one stays", right, reduce(last, operands))
        for number in range(len(operands)):
            rest = [*operands[:number], *operands[number + 1 :]]
            if rest:
                yield FaultModel(f"operand {number + 1} is left out", right, reduce(self.combine, rest))

    def assumptions(self) -> Iterator[str]:
        """Yield that comparisons are samples."""
        yield f"{self.operator} only compares its operands: random and special numbers were tried."
