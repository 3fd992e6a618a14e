"""Div (ONNX), float32: the quotient of two activations, or of an activation and a constant, in either order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.operators.base import Layer
from harness.operators.elements import Bounds
from harness.operators.exact.expression import Expression
from harness.operators.float_samples import of_samples
from harness.operators.integer_elements import IntegerElements
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.tensor import INTEGERS, Tensor, integer_limits
from harness.operators.terms import BinaryLayer


def require_divisor(node: Node, layer: IntegerElements) -> None:
    """Refuse a divisor that can be 0, or -1 if the quotient can leave the type: ONNX Runtime ends with a signal."""
    divisor, low_of_type = layer.terms[1], integer_limits(layer.dtype)[0]
    low, high = node.range(layer.inputs[-1]) if divisor is None else (divisor.min(), divisor.max())
    has_zero = low <= 0 <= high if divisor is None else bool((divisor == 0).any())
    if has_zero:
        what = "the constant" if divisor is not None else repr(layer.inputs[-1].name)
        raise node.refusal(f"its divisor can be 0, {what}", "a constant other than 0, or a Max or Clip to 1 or more")
    has_minus_one = low <= -1 <= high if divisor is None else bool((divisor == -1).any())
    least = node.range(layer.input)[0] if layer.terms[0] is None else int(layer.terms[0].min())
    if has_minus_one and least <= low_of_type:
        raise node.refusal(
            f"its divisor can be -1, and its dividend {low_of_type}: the quotient is not in the type",
            "a Neg in the place of a quotient by -1, or a dividend that Max keeps above",
        )


@dataclass(frozen=True, eq=False)
class Div(BinaryLayer):
    """y[n] = A[n] / B[n]; the constant `dividend` or `divisor` takes the place of A or B.

    A divisor that can be 0 is refused.  A quotient of two infinities is NaN, which has no specified bits: the reference
    fails for such an input.
    """

    ONNX = (("", "Div"),)
    verb = "divides"
    orders = (79, 83, 84)
    with_first_constant = ("into", "which is divided by a")
    constant_roles = ("dividend", "divisor")

    dividend: npt.NDArray[np.float32] | None
    divisor: npt.NDArray[np.float32] | None

    @staticmethod
    def value(a: Expression, b: Expression) -> Expression:
        """Return the definition."""
        return a / b

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node whose divisor is not 0."""
        layer = super().read(node)
        if isinstance(layer, IntegerElements) and layer.dtype in INTEGERS:
            require_divisor(node, layer)
        return layer

    @classmethod
    def bounds(cls, node: Node, sources: Sequence[Tensor], fixed: Sequence[Any]) -> Bounds:
        """Return the largest quotient by a constant without zeros, or by an activation that Clip keeps away from 0."""
        dividend, divisor = fixed
        low, high = node.range(sources[-1])
        least = max(sources[-1].least, low, -high) if divisor is None else float(np.abs(divisor).min())
        if least <= 0:
            what = f"{sources[-1].name!r}" if divisor is None else "the constant"
            raise node.refusal(
                f"its divisor can be 0, {what}", "a constant other than 0, or a Clip to positive numbers"
            )
        with np.errstate(over="ignore"):  # rounding changes no order, so the bound holds for rounded quotients too
            largest = np.float32(sources[0].bound) if dividend is None else np.abs(dividend).max()
            return Bounds(float(largest / np.float32(least)), negative_zero=True, can_be_nan=False)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield samples; the pairs of BinaryLayer would divide by 0."""
        return of_samples(self, "quotients are rounded to float32 as IEEE 754 says")
