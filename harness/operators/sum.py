"""Sum (ONNX), float32: the sum of one or more operands, with broadcasting.

y = A, then y = y + x for each further operand x      one IEEE 754 addition each, from left to right
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import fold
from harness.operators.base import fields
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Perturbed, gamma, within_range
from harness.operators.fold import Fold
from harness.operators.node import Node
from harness.operators.sum_orders import OrderedSum
from harness.operators.tensor import FLOAT32, LARGEST


@dataclass(frozen=True, eq=False)
class Sum(Fold):
    """y = ((A + B) + C) + ..., each addition rounded to float32."""

    ONNX = (("", "Sum"),)
    formula = (
        "y = A, then y = y + x for each further operand x                        in float32, each operation rounded"
    )
    fragments = fold.fragments("sum_float32", 99, "ONNX Sum: the operands are added from left to right, each rounded.")
    statement = "the operands are added from left to right, each sum rounded to float32 as IEEE 754 says"

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of fitting shapes, one of them an activation."""
        sources, terms, shape = fold.read(node, "adds")
        total = sum(fold.largest(sources, terms)) * (1 + gamma(len(terms)))
        negative_zero = all(fold.negative_zeros(sources, terms))
        bound = total if total < LARGEST or len(terms) == 1 else np.inf
        return cls(**fields(node, sources, shape, FLOAT32, bound, negative_zero=negative_zero), terms=terms)

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
        return OrderedSum(np.stack(self.operands(inputs)), lambda sums: sums)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders and roundings, and operands that are left out."""
        operands, right = self.operands(inputs), "the operands are added from left to right, each sum rounded"
        with np.errstate(all="ignore"):
            yield from self.sum_faults(*inputs)
            for number in range(len(operands)):
                rest = [*operands[:number], *operands[number + 1 :]]
                if rest:
                    yield FaultModel(f"operand {number + 1} is left out", right, reduce(np.add, rest))

    def assumptions(self) -> Iterator[str]:
        """Yield that sums are samples."""
        yield "Sum adds from left to right and rounds as IEEE 754 requires: random and special numbers were tried."
