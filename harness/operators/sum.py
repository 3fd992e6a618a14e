"""Sum and Mean (ONNX), float32: the sum or the mean of one or more operands, with broadcasting.

y = A, then y = y + x for each further operand x      one IEEE 754 addition each, from left to right
Mean: y / the number of operands                      one IEEE 754 division
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import fold
from harness.operators.base import Evaluate, fields
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import UNDERFLOW, UNIT_ROUNDOFF, Perturbed, gamma, within_range
from harness.operators.fold import Fold
from harness.operators.node import Node
from harness.operators.sum_orders import OrderedSum
from harness.operators.tensor import FLOAT32, LARGEST

POWERS = (1, 2, 4, 8, 16, 32, 64)
"""Divisors of which 1 / count is exact."""


@dataclass(frozen=True, eq=False)
class Sum(Fold):
    """y = ((A + B) + C) + ..., each addition rounded to float32."""

    ONNX = (("", "Sum"),)
    formula = (
        "y = A, then y = y + x for each further operand x                        in float32, each operation rounded"
    )
    fragments = fold.fragments("sum_float32", 99, "ONNX Sum: the operands are added from left to right, each rounded.")
    statement = "the operands are added from left to right, each sum rounded to float32 as IEEE 754 says"
    right: ClassVar[str] = "the operands are added from left to right, each sum rounded"

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of fitting shapes, one of them an activation."""
        sources, terms, shape = fold.read(node, "adds")
        total = sum(fold.largest(sources, terms)) * (1 + gamma(len(terms)))
        negative_zero = all(fold.negative_zeros(sources, terms))
        bound = total if total < LARGEST or len(terms) == 1 else np.inf
        return cls(**fields(node, sources, shape, FLOAT32, bound, negative_zero=negative_zero), terms=terms)

    @property
    def divisor(self) -> np.float32:
        """The number by which sums are divided."""
        return np.float32(1)

    def combine(self, first: Array, second: Array) -> Array:
        """Return the rounded sum of two values."""
        return first + second

    def tolerance(self, inputs: Sequence[Array], output: Array) -> npt.NDArray[np.float64]:  # noqa: ARG002 - as above
        """Return the error bounds of two orders of the sum."""
        return self._rounding(inputs, 2 * gamma(len(self.terms) - 1))

    def _rounding(self, inputs: Sequence[Array], relative: float) -> npt.NDArray[np.float64]:
        magnitudes = np.sum([np.abs(each.astype(np.float64)) for each in self.operands(inputs)], axis=0)
        return within_range(relative * magnitudes, magnitudes)

    def change(self, at: Perturbed) -> Array:
        """Return the sum of the errors."""
        return self.linear(at.errors)

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the sum of the changes."""
        total: Array = self.without_constants(rows).sum(axis=0)
        return total

    def rounding(self, at: Perturbed) -> Array:
        """Return the error bounds of two orders, one of them within the sum before."""
        return self._rounding(at.magnitudes(), 2 * gamma(len(self.terms) - 1) + gamma(at.roundings))

    def roundings(self, before: int) -> int:
        """Return those of the inputs: ONNX Runtime adds the operands of a Sum to a Gemm before."""
        return before

    def ordered_sum(self, *inputs: Array) -> OrderedSum:
        """Return the sums of the operands."""
        return OrderedSum(np.stack(self.operands(inputs)), lambda sums: sums / self.divisor)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders and roundings, and operands that are left out."""
        operands = self.operands(inputs)
        with np.errstate(all="ignore"):
            yield from self.sum_faults(*inputs)
            for number in range(len(operands)):
                rest = [*operands[:number], *operands[number + 1 :]]
                if rest:
                    yield FaultModel(
                        f"operand {number + 1} is left out", self.right, reduce(np.add, rest) / self.divisor
                    )

    def assumptions(self) -> Iterator[str]:
        """Yield that sums are samples."""
        yield f"{self.operator} rounds as IEEE 754 requires, from left to right: random and special numbers were tried."


@dataclass(frozen=True, eq=False)
class Mean(Sum):
    """y = (((A + B) + C) + ...) / count; ONNX Runtime multiplies the sum by 1 / count."""

    ONNX = (("", "Mean"),)
    formula = (
        "y = A, then y = y + x for each further operand x, then y / count        in float32, each operation rounded"
    )
    fragments = fold.fragments(
        "mean_float32", 121, "ONNX Mean: the sum of ONNX Sum, divided by the number of operands."
    )
    statement = "the operands are added from left to right, the sum is divided by their number, as IEEE 754 says"
    right = "the operands are added from left to right, the sum is divided by their number"

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node as Sum does; a small negative mean can be rounded to -0."""
        layer = super().read(node)
        bound = layer.output.bound / float(layer.divisor) * (1 + gamma(1))
        return replace(layer, output=replace(layer.output, bound=bound, negative_zero=True))

    @property
    def divisor(self) -> np.float32:
        """The number of operands."""
        return np.float32(len(self.terms))

    def prepare(self) -> Evaluate:
        """Return the function that divides the sum."""
        total = super().prepare()
        return lambda *values: total(*values) / self.divisor

    def _rounding(self, inputs: Sequence[Array], relative: float) -> npt.NDArray[np.float64]:
        sums = super()._rounding(inputs, relative + 3 * UNIT_ROUNDOFF)  # of 1 / count, the product and the quotient
        return sums / self.divisor + UNDERFLOW

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the mean of the changes."""
        return super().linear(rows) / self.divisor

    def roundings(self, before: int) -> int:  # noqa: ARG002 - as of the base
        """Return 0: ONNX Runtime computes it alone."""
        return 0

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of the sum, and other divisions."""
        yield from super().fault_models(*inputs)
        with np.errstate(all="ignore"):
            total: Array = reduce(np.add, self.operands(inputs))
            if self.divisor != 1:
                yield FaultModel("the sum is not divided", self.right, total)
            if self.divisor not in POWERS:
                inverse = total * (np.float32(1) / self.divisor)
                yield FaultModel("the sum is multiplied by 1 / count", self.right, inverse)
