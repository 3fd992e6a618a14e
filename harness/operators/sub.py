"""Sub (ONNX), float32: the difference of two activations, or of an activation and a constant, in either order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.operators.exact.expression import Expression
from harness.operators.terms import BinaryLayer


@dataclass(frozen=True, eq=False)
class Sub(BinaryLayer):
    """y[n] = A[n] - B[n]; the constant `minuend` or `subtrahend` takes the place of A or B.

    A difference that overflows is infinite.  Infinite terms of one sign give a NaN, which has no specified bits: the
    reference fails for such an input.
    """

    ONNX = (("", "Sub"),)
    verb = "subtracts"
    orders = (72, 73, 78)
    with_first_constant = ("from", "from which a is subtracted")
    neutral_zero = -0.0
    constant_roles = ("minuend", "subtrahend")
    takes_infinities = True

    minuend: npt.NDArray[np.float32] | None
    subtrahend: npt.NDArray[np.float32] | None

    @staticmethod
    def value(a: Expression, b: Expression) -> Expression:
        """Return the definition."""
        return a - b
