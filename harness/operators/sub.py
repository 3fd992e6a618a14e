"""Sub (ONNX), float32: the difference of two activations, or of an activation and a constant, in either order.

y[n] = a[n] - b[n]                         one IEEE 754 subtraction, rounded half to even
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, terms
from harness.operators.base import fields
from harness.operators.node import Node
from harness.operators.softfloat import Integers
from harness.operators.tensor import FLOAT32
from harness.operators.terms import BinaryLayer, fragment, fragment_of_axes
from harness.operators.text import Fragment

SUB = fragment("sub_float32", 72, "Sub", "a - b")
SUB_FROM = fragment("sub_from_float32", 73, "Sub", "b - a", "a constant (1, N), from which a is subtracted")


def _subtract(a: Integers, b: Integers) -> npt.NDArray[np.uint32]:
    """Return the bits of float32(a - b)."""
    return softfloat.add(a, b ^ softfloat.SIGN_BIT)


@dataclass(frozen=True, eq=False)
class Sub(BinaryLayer):
    """y[n] = a[n] - b[n]; the constant `minuend` or `subtrahend`, float32, takes the place of a or b.

    A difference that overflows is infinite.  Infinite terms of one sign give a NaN, which has no specified bits: the
    reference fails for such an input.
    """

    monotone = True
    ONNX = (("", "Sub"),)
    formula = f"{'y[n] = A[n] - B[n]':62} in float32; a constant serves every vector"
    fragments = (SUB, SUB_FROM, fragment_of_axes("sub_float32", 78, "Sub"))
    symbol = "-"
    operation = "subtraction"
    result = "difference"
    apply = np.subtract
    wrong = MappingProxyType(
        {
            "the first term is left out": lambda _, b: -b,
            "the second term is left out": lambda a, _: a,
            "the terms are exchanged": lambda a, b: b - a,
            "the second term is added instead of subtracted": np.add,
        }
    )
    combine = staticmethod(_subtract)
    constant_roles = ("minuend", "subtrahend")
    takes_infinities = True

    minuend: npt.NDArray[np.float32] | None
    subtrahend: npt.NDArray[np.float32] | None

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have fitting shapes, or one of which is a constant."""
        sources = terms.activations(node, "subtracts")
        constant = terms.constant(node, sources, "constant term")
        bound = terms.bound_of_sum(sources, constant)
        minuend, subtrahend = (constant, None) if node.inputs[0] in node.constants else (None, constant)
        terms.require_kept_zero(node, sources[0], subtrahend, -0.0)
        first = sources[0].negative_zero if minuend is None else terms.includes(minuend, -0.0)
        negative_zero = first and (subtrahend is None or terms.includes(subtrahend, 0.0))
        written = fields(node, sources, terms.shape(sources, constant), FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, minuend=minuend, subtrahend=subtrahend)

    @staticmethod
    def change_of_result(a: Array, b: Array, of_a: Array, of_b: Array) -> Array:  # noqa: ARG004 - of the interface
        """Return the sum of both errors."""
        return of_a + of_b

    @property
    def transparent(self) -> bool:
        """True if it subtracts 0, so that ONNX Runtime may remove it."""
        return self.subtrahend is not None and not self.subtrahend.any()

    @property
    def fragment(self) -> Fragment:
        """The operation by which of the terms is constant."""
        return super().fragment if self.broadcasts or self.minuend is None else SUB_FROM

    def constant_in_sum(self) -> npt.NDArray[np.float32] | None:
        """Return the opposite of the constant term."""
        constant = super().constant_in_sum()
        return None if constant is None else -constant
