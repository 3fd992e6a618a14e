"""Sum and Mean (ONNX), float32: the sum or the mean of one or more operands, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability
from harness.operators.exact.expression import Expression
from harness.operators.float_errors import UNDERFLOW, UNIT_ROUNDOFF, Perturbed, gamma, within_range
from harness.operators.fold import Fold
from harness.operators.product import Runtime
from harness.operators.sum_orders import OrderedSum, SumOrder


@dataclass(frozen=True, eq=False)
class Sum(Fold):
    """y = ((A + B) + C) + ..., each addition rounded to float32."""

    ONNX = (("", "Sum"),)
    sum_order = Ability(lambda layer: SumOrder(layer, layer.ordered_sum))
    verb = "adds"
    order = 99
    comment = "ONNX Sum: the operands are added from left to right, each rounded."
    runtime = Ability(lambda layer: Runtime(layer, joins=True))

    @staticmethod
    def combine(y: Expression, x: Expression) -> Expression:
        """Return the rounded sum of two values."""
        return y + x

    @property
    def divisor(self) -> np.float32:
        """The number by which sums are divided."""
        return np.float32(1)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:
        """Return the error bounds of two orders of the sum."""
        return self.rounding(Perturbed(inputs, [np.zeros(x.shape) for x in inputs], output))

    def rounding(self, at: Perturbed) -> Array:
        """Return the error bounds of two orders, one of them within the sum before."""
        magnitudes = self.magnitudes(at)
        return within_range((2 * gamma(len(self.terms) - 1) + gamma(at.roundings)) * magnitudes, magnitudes)

    def ordered_sum(self, *inputs: Array) -> OrderedSum:
        """Return the sums of the operands."""
        shape = (len(inputs[0]), *self.output.shape)
        terms = [np.broadcast_to(x, shape).reshape(shape[0], -1) for x in self.arguments(inputs).values()]
        return OrderedSum(np.stack(terms), lambda sums: sums / self.divisor)


@dataclass(frozen=True, eq=False)
class Mean(Sum):
    """y = (((A + B) + C) + ...) / count; ONNX Runtime multiplies the sum by 1 / count."""

    ONNX = (("", "Mean"),)
    verb = "adds"
    order = 121
    comment = "ONNX Mean: the sum of ONNX Sum, divided by the number of operands."
    runtime = Ability(Runtime)

    @staticmethod
    def finish(result: Expression, count: Expression | int) -> Expression:
        """Return the quotient."""
        return result / count

    @property
    def divisor(self) -> np.float32:
        """The number of operands."""
        return np.float32(len(self.terms))

    def rounding(self, at: Perturbed) -> Array:
        """Return the error bounds of two orders, and those of 1 / count, the product and the quotient."""
        sums = super().rounding(at) + 3 * UNIT_ROUNDOFF * self.magnitudes(at)
        return sums / self.divisor + UNDERFLOW
