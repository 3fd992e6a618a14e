"""Div (ONNX), float32: the quotient of two activations, or of an activation and a constant, in either order.

y[n] = a[n] / b[n]                         one IEEE 754 division, rounded half to even; it can be infinite
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import terms
from harness.operators.base import fields
from harness.operators.float_samples import of_samples
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.softfloat import Integers
from harness.operators.tensor import FLOAT32
from harness.operators.terms import BinaryLayer, fragment, fragment_of_axes
from harness.operators.text import Fragment

DIV = fragment("div_float32", 79, "Div", "a / b")
DIV_INTO = fragment("div_into_float32", 83, "Div", "b / a", "a constant (1, N), which is divided by a")


def _divide(a: Integers, b: Integers) -> npt.NDArray[np.uint32]:
    """Return the bits of float32(a / b)."""
    with np.errstate(all="ignore"):
        numbers = (each.astype(np.uint32).view(np.float32) for each in (a, b))
        quotient: npt.NDArray[np.float32] = np.divide(*numbers)
    return quotient.view(np.uint32)


@dataclass(frozen=True, eq=False)
class Div(BinaryLayer):
    """y[n] = a[n] / b[n]; the constant `dividend` or `divisor`, float32, takes the place of a or b.

    A divisor that can be 0 is refused.  A quotient of two infinities is NaN, which has no specified bits: the reference
    fails for such an input.
    """

    ONNX = (("", "Div"),)
    formula = f"{'y[n] = A[n] / B[n]':62} in float32; a constant serves every vector"
    fragments = (DIV, DIV_INTO, fragment_of_axes("div_float32", 84, "Div"))
    symbol = "/"
    operation = "division"
    result = "quotient"
    apply = np.divide
    wrong = MappingProxyType(
        {
            "the divisor is left out": lambda a, _: a,
            "the terms are exchanged": lambda a, b: b / a,
            "the first term is multiplied by the second": np.multiply,
            "the first term is multiplied by 1 / the second": lambda a, b: a * (np.float32(1) / b),
        }
    )
    combine = staticmethod(_divide)
    constant_roles = ("dividend", "divisor")

    dividend: npt.NDArray[np.float32] | None
    divisor: npt.NDArray[np.float32] | None

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose divisor is a constant without zeros, or an activation that Clip keeps away from 0."""
        sources = terms.activations(node, "divides")
        constant = terms.constant(node, sources, "constant term")
        dividend, divisor = (constant, None) if node.inputs[0] in node.constants else (None, constant)
        low, high = node.range(sources[-1])
        least = max(sources[-1].least, low, -high) if divisor is None else float(np.abs(divisor).min())
        if least <= 0:
            what = f"{sources[-1].name!r}" if divisor is None else "the constant"
            raise node.refusal(
                f"its divisor can be 0, {what}", "a constant other than 0, or a Clip to positive numbers"
            )
        with np.errstate(over="ignore"):  # rounding changes no order, so the bound holds for rounded quotients too
            largest = np.float32(sources[0].bound) if dividend is None else np.abs(dividend).max()
            bound = float(largest / np.float32(least))
        written = fields(node, sources, terms.shape(sources, constant), FLOAT32, bound, negative_zero=True)
        return cls(**written, dividend=dividend, divisor=divisor)

    @staticmethod
    def change_of_result(a: Array, b: Array, of_a: Array, of_b: Array) -> Array:
        """Return (of_a + |a / b| of_b) / (|b| - of_b), from a' / b' - a / b = (a' - a - (a / b) (b' - b)) / b'."""
        left = np.abs(b) - of_b
        return np.where(left > 0, (of_a + np.abs(a / b) * of_b) / left, np.inf)

    @property
    def transparent(self) -> bool:
        """True if it divides by 1, so that ONNX Runtime may remove it."""
        return self.divisor is not None and bool((self.divisor == 1).all())

    @property
    def fragment(self) -> Fragment:
        """The operation by which of the terms is constant."""
        return super().fragment if self.broadcasts or self.dividend is None else DIV_INTO

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield samples; the pairs of BinaryLayer would divide by 0."""
        return of_samples(self, "quotients are rounded to float32 as IEEE 754 says")
