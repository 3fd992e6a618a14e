"""Max and Min (ONNX), float32: the largest or the smallest of one or more operands, with broadcasting.

Nothing is rounded; the order decides the sign of a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.exact.expression import Expression, larger, smaller
from harness.operators.fold import Fold
from harness.operators.integer_elements import IntegerElements, reads_integers
from harness.operators.node import Node


@dataclass(frozen=True, eq=False)
class Max(Fold):
    """The largest operand, of equal ones the first; ONNX Runtime may give another sign of zero."""

    ONNX = (("", "Max"),)
    verb = "compares"
    order = 97
    comment = "ONNX Max: the largest of the operands, of equal ones the first."

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node of float32 operands or of integers."""
        return IntegerElements.read(node) if reads_integers(node) else super().read(node)

    @staticmethod
    def combine(y: Expression, x: Expression) -> Expression:
        """Return the value that is chosen of two."""
        return larger(x, y)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return 0: zeros of either sign are right."""
        return np.zeros(output.shape)


@dataclass(frozen=True, eq=False)
class Min(Max):
    """The smallest operand, of equal ones the first."""

    ONNX = (("", "Min"),)
    order = 98
    comment = "ONNX Min: the smallest of the operands, of equal ones the first."

    @staticmethod
    def combine(y: Expression, x: Expression) -> Expression:
        """Return the value that is chosen of two."""
        return smaller(x, y)
