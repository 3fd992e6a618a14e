"""Add (ONNX), float32: the sum of two activations, or of an activation and a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.operators.exact.expression import Expression
from harness.operators.terms import BinaryLayer


@dataclass(frozen=True, eq=False)
class Add(BinaryLayer):
    """y[n] = A[n] + B[n]; the constant `addend` takes the place of B, also where it is the first input.

    A sum that overflows is infinite.  Infinite terms of both signs give a NaN, which has no specified bits: the
    reference fails for such an input.
    """

    ONNX = (("", "Add"),)
    verb = "adds"
    orders = (50, 55)
    neutral_zero = 0.0
    constant_roles = ("addend",)
    takes_infinities = True

    addend: npt.NDArray[np.float32] | None

    @staticmethod
    def value(a: Expression, b: Expression) -> Expression:
        """Return the definition."""
        return a + b
